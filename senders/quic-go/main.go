// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors

// A bulk sender and receiver around quic-go, by the contract of docs/exec.md.
//
// The sender writes to one unidirectional stream for as long as it is asked to. Flow control is
// wide, so that the congestion controller is the only limit. One thread runs Go code at a time, so
// that two trials with the same seed do the same.
package main

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlog"
	"github.com/quic-go/quic-go/qlogwriter"
)

const (
	protocol    = "l4sbench"
	cannotCode  = 127
	windowBytes = 64 << 20
	chunkBytes  = 64 << 10
	lastWords   = 50 * time.Millisecond
	logEvery    = 10 * time.Millisecond
)

// errCannot marks a request that this sender cannot meet, as opposed to one that failed.
var errCannot = errors.New("quic-go cannot do this")

type options struct {
	sends bool
	named map[string]string
}

func parse(words []string) (options, error) {
	if len(words) == 0 || (words[0] != "send" && words[0] != "receive") {
		return options{}, fmt.Errorf("%w: expected send or receive, then options", errCannot)
	}
	found := options{words[0] == "send", map[string]string{}}
	for rest := words[1:]; len(rest) > 0; rest = rest[2:] {
		if len(rest) < 2 || len(rest[0]) < 3 || rest[0][:2] != "--" {
			return options{}, fmt.Errorf("%q is not an option with a value", rest[0])
		}
		found.named[rest[0][2:]] = rest[1]
	}
	return found, nil
}

func (o options) address() (*net.UDPAddr, error) {
	ip, err := netip.ParseAddr(o.named["address"])
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(o.named["port"], 10, 16)
	return net.UDPAddrFromAddrPort(netip.AddrPortFrom(ip, uint16(port))), err
}

func config() *quic.Config {
	return &quic.Config{
		InitialStreamReceiveWindow:     windowBytes,
		MaxStreamReceiveWindow:         windowBytes,
		InitialConnectionReceiveWindow: windowBytes,
		MaxConnectionReceiveWindow:     windowBytes,
	}
}

// connected gives a socket its peer without telling Go, which then still takes addresses: of
// unconnected sockets Linux numbers no packets, by which captures are compared.
func connected(socket *net.UDPConn, to *net.UDPAddr) error {
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var peer syscall.Sockaddr = &syscall.SockaddrInet4{Port: to.Port, Addr: [4]byte(to.IP.To16()[12:])}
	if to.IP.To4() == nil {
		peer = &syscall.SockaddrInet6{Port: to.Port, Addr: [16]byte(to.IP.To16())}
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = syscall.Connect(int(fd), peer) })
	return errors.Join(err, failed)
}

func send(o options) (any, error) {
	seconds, err := strconv.ParseFloat(o.named["seconds"], 64)
	if err != nil {
		return nil, err
	}
	until, cancel := context.WithTimeout(context.Background(), time.Duration(seconds*float64(time.Second)))
	defer cancel()
	if cc := o.named["cc"]; cc != "reno" {
		return nil, fmt.Errorf("%w: its congestion control is reno, not %q", errCannot, cc)
	}
	switch code := o.named["codepoint"]; code {
	case "ect0":
	case "not-ect":
		os.Setenv("QUIC_GO_DISABLE_ECN", "true")
	default:
		return nil, fmt.Errorf("%w: it sends ect0 or not-ect, not %q", errCannot, code)
	}
	to, err := o.address()
	if err != nil {
		return nil, err
	}
	network := "udp4"
	if to.IP.To4() == nil {
		network = "udp6"
	}
	socket, err := net.ListenUDP(network, nil)
	if err != nil {
		return nil, err
	}
	if err := connected(socket, to); err != nil {
		return nil, err
	}
	transport := &quic.Transport{Conn: socket}
	using := config()
	if place := o.named["qlog"]; place != "" {
		if using.Tracer, err = tracer(place); err != nil {
			return nil, err
		}
	}
	trusting := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}, MinVersion: tls.VersionTLS13}
	connection, err := transport.Dial(until, to, trusting, using)
	if err != nil {
		return nil, err
	}
	stream, err := connection.OpenUniStream()
	if err != nil {
		return nil, err
	}
	deadline, _ := until.Deadline()
	if err := stream.SetWriteDeadline(deadline); err != nil {
		return nil, err
	}
	for chunk := make([]byte, chunkBytes); err == nil; {
		_, err = stream.Write(chunk)
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, err
	}
	all := connection.ConnectionStats()
	connection.CloseWithError(0, "")
	time.Sleep(lastWords)
	return map[string]any{
		"packets_sent": all.PacketsSent,
		"packets_lost": all.PacketsLost,
		"bytes_sent":   all.BytesSent,
		"bytes_lost":   all.BytesLost,
		"window_bytes": all.CongestionWindow,
		"rtt_ms": map[string]float64{
			"least":    float64(all.MinRTT) / 1e6,
			"smoothed": float64(all.SmoothedRTT) / 1e6,
		},
	}, nil
}

// buffered is a file that is written in large pieces.
type buffered struct {
	*bufio.Writer
	file *os.File
}

func (b buffered) Close() error { return errors.Join(b.Flush(), b.file.Close()) }

// tracer returns what gives a connection its qlog.
func tracer(place string) (func(context.Context, bool, quic.ConnectionID) qlogwriter.Trace, error) {
	file, err := os.Create(place)
	if err != nil {
		return nil, err
	}
	return func(_ context.Context, isClient bool, id quic.ConnectionID) qlogwriter.Trace {
		all := qlogwriter.NewConnectionFileSeq(buffered{bufio.NewWriter(file), file}, isClient, id)
		go all.Run()
		return thinTrace{all}
	}, nil
}

// thinTrace leaves out most events, as a log of every packet is as large as the traffic.
type thinTrace struct{ qlogwriter.Trace }

func (t thinTrace) AddProducer() qlogwriter.Recorder {
	return &thinRecorder{Recorder: t.Trace.AddProducer()}
}

type thinRecorder struct {
	qlogwriter.Recorder
	due   time.Time
	marks uint64
}

// RecordEvent keeps losses, metrics every 10 ms, and of packets those whose ACK has new marks.
func (r *thinRecorder) RecordEvent(event qlogwriter.Event) {
	switch of := event.(type) {
	case qlog.PacketLost:
		r.Recorder.RecordEvent(of)
	case qlog.MetricsUpdated:
		if now := time.Now(); !now.Before(r.due) {
			r.due = now.Add(logEvery)
			r.Recorder.RecordEvent(of)
		}
	case qlog.PacketReceived:
		for _, frame := range of.Frames {
			if ack, is := frame.Frame.(*qlog.AckFrame); is && ack.ECNCE > r.marks {
				r.marks = ack.ECNCE
				of.Frames = []qlog.Frame{frame}
				r.Recorder.RecordEvent(of)
			}
		}
	}
}

func receive(o options) (any, error) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	own, err := o.address()
	if err != nil {
		return nil, err
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	named := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{protocol}}
	signed, err := x509.CreateCertificate(rand.Reader, named, named, public, private)
	if err != nil {
		return nil, err
	}
	shown := tls.Certificate{Certificate: [][]byte{signed}, PrivateKey: private}
	listener, err := quic.ListenAddr(
		own.String(), &tls.Config{Certificates: []tls.Certificate{shown}, NextProtos: []string{protocol}}, config())
	if err != nil {
		return nil, err
	}
	var received atomic.Int64
	go func() {
		for {
			connection, err := listener.Accept(context.Background())
			if err != nil {
				return
			}
			go drain(connection, &received)
		}
	}()
	<-ended
	return map[string]int64{"bytes_received": received.Load()}, nil
}

func drain(connection *quic.Conn, received *atomic.Int64) {
	for {
		stream, err := connection.AcceptUniStream(context.Background())
		if err != nil {
			return
		}
		chunk := make([]byte, chunkBytes)
		for err == nil {
			var read int
			read, err = io.Reader(stream).Read(chunk)
			received.Add(int64(read))
		}
	}
}

func main() {
	runtime.GOMAXPROCS(1)
	report, err := any(nil), error(nil)
	o, err := parse(os.Args[1:])
	if err == nil && o.sends {
		report, err = send(o)
	} else if err == nil {
		report, err = receive(o)
	}
	if err == nil {
		var text []byte
		text, err = json.Marshal(report)
		err = errors.Join(err, os.WriteFile(o.named["json"], append(text, '\n'), 0o644))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "quic-go: %v\n", err)
		if errors.Is(err, errCannot) {
			os.Exit(cannotCode)
		}
		os.Exit(1)
	}
}
