module scream

go 1.26.0

require (
	github.com/pion/rtcp v1.2.20
	github.com/pion/rtp v1.10.6
)

require github.com/pion/randutil v0.1.0 // indirect
