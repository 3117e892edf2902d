// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors

// A sender and receiver of video around pion's Google congestion control, by the contract of
// docs/exec.md.
//
// The encoder is synthetic: 30 frames per second, each as large as the estimate allows, so that
// nothing but the congestion controller decides. The receiver returns pion's transport-wide
// feedback and measures frames from their capture to their last packet. Nothing is sent again: a
// frame that lacks a packet is lost. One thread runs Go code at a time, so that two trials with the
// same seed do the same.
package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/pion/interceptor"
	"github.com/pion/interceptor/pkg/gcc"
	"github.com/pion/interceptor/pkg/twcc"
	"github.com/pion/rtcp"
	"github.com/pion/rtp"
)

const (
	cannotCode    = 127
	framesPerS    = 30
	clockHz       = 90000 // RFC 6184 section 8.2.1
	payloadType   = 96    // the first dynamic one, RFC 3551 section 6
	mediaSSRC     = 1
	extension     = 1
	uri           = "http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01"
	payloadBytes  = 1200
	headBytes     = 16
	firstRate     = 300_000 // bit/s, as of WebRTC
	feedbackEvery = 100 * time.Millisecond
	freeze        = 200 * time.Millisecond
)

// errCannot marks a request that this sender cannot meet, as opposed to one that failed.
var errCannot = errors.New("pion cannot do this")

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

// head is the beginning of every payload: frame, which of its packets this is, and how many it has.
type head struct {
	Frame        uint32
	Index, Count uint16
	CapturedNs   int64
}

func send(o options) (any, error) {
	seconds, err := strconv.ParseFloat(o.named["seconds"], 64)
	if err != nil {
		return nil, err
	}
	ends := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	if cc := o.named["cc"]; cc != "gcc" {
		return nil, fmt.Errorf("%w: its congestion control is gcc, not %q", errCannot, cc)
	}
	if code := o.named["codepoint"]; code != "not-ect" {
		return nil, fmt.Errorf("%w: it sends not-ect, not %q", errCannot, code)
	}
	to, err := o.address()
	if err != nil {
		return nil, err
	}
	socket, err := net.DialUDP("udp", nil, to)
	if err != nil {
		return nil, err
	}
	estimator, err := gcc.NewSendSideBWE(gcc.SendSideBWEInitialBitrate(firstRate), gcc.SendSideBWEMinBitrate(firstRate))
	if err != nil {
		return nil, err
	}
	info := &interceptor.StreamInfo{
		SSRC: mediaSSRC, RTPHeaderExtensions: []interceptor.RTPHeaderExtension{{URI: uri, ID: extension}},
	}
	paced := estimator.AddStream(info, interceptor.RTPWriterFunc(
		func(header *rtp.Header, payload []byte, _ interceptor.Attributes) (int, error) {
			raw, err := (&rtp.Packet{Header: *header, Payload: payload}).Marshal()
			if err == nil {
				_, _ = socket.Write(raw) // a host's full queue is a loss as any other
			}
			return len(raw), err
		}))
	go func() {
		for raw := make([]byte, 1<<16); ; {
			if size, err := socket.Read(raw); err == nil {
				if packets, err := rtcp.Unmarshal(raw[:size]); err == nil {
					_ = estimator.WriteRTCP(packets, nil)
				}
			} else if errors.Is(err, net.ErrClosed) {
				return
			}
		}
	}()
	return encode(paced, estimator, ends)
}

// encode hands frames to the pacer until the end, and returns what was done.
func encode(paced interceptor.RTPWriter, estimator *gcc.SendSideBWE, ends time.Time) (any, error) {
	var frames, packets, most, sum int
	begun := time.Now()
	for {
		due := begun.Add(time.Duration(frames) * time.Second / framesPerS)
		if !due.Before(ends) {
			break
		}
		time.Sleep(time.Until(due))
		rate := estimator.GetTargetBitrate()
		frames, sum, most = frames+1, sum+rate, max(most, rate)
		size := max(rate/8/framesPerS, headBytes)
		of := head{uint32(frames), 0, uint16((size + payloadBytes - 1) / payloadBytes), time.Now().UnixNano()}
		for ; of.Index < of.Count; of.Index++ {
			payload := make([]byte, max(min(size-int(of.Index)*payloadBytes, payloadBytes), headBytes))
			if _, err := binary.Encode(payload, binary.BigEndian, of); err != nil {
				return nil, err
			}
			header := &rtp.Header{
				Version: 2, PayloadType: payloadType, SSRC: mediaSSRC, SequenceNumber: uint16(packets),
				Timestamp: uint32(frames * clockHz / framesPerS), Marker: of.Index+1 == of.Count,
			}
			numbered, err := (&rtp.TransportCCExtension{TransportSequence: uint16(packets)}).Marshal()
			if err = errors.Join(err, header.SetExtension(extension, numbered)); err != nil {
				return nil, err
			}
			if _, err := paced.Write(header, payload, nil); err != nil {
				return nil, err
			}
			packets++
		}
	}
	time.Sleep(time.Until(ends))
	last := float64(estimator.GetTargetBitrate())
	mean := float64(sum) / float64(max(frames, 1))
	return map[string]any{
		"frames_sent":    frames,
		"packets_queued": packets,
		"target_mbps":    map[string]float64{"last": last / 1e6, "most": float64(most) / 1e6, "mean": mean / 1e6},
	}, nil
}

func receive(o options) (any, error) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	own, err := o.address()
	if err != nil {
		return nil, err
	}
	socket, err := net.ListenUDP("udp", own)
	if err != nil {
		return nil, err
	}
	go func() { <-ended; socket.Close() }()
	var seen viewer
	begun, due := time.Now(), time.Now().Add(feedbackEvery)
	recorder := twcc.NewRecorder(mediaSSRC)
	var from netip.AddrPort
	for raw := make([]byte, 1<<16); ; {
		_ = socket.SetReadDeadline(due)
		size, sender, err := socket.ReadFromUDPAddrPort(raw)
		if errors.Is(err, net.ErrClosed) {
			return seen.report(), nil
		}
		now := time.Now()
		var packet rtp.Packet
		if err == nil && packet.Unmarshal(raw[:size]) == nil && len(packet.Payload) >= headBytes {
			var numbered rtp.TransportCCExtension
			if numbered.Unmarshal(packet.GetExtension(extension)) == nil {
				recorder.Record(mediaSSRC, numbered.TransportSequence, now.Sub(begun).Microseconds())
				from = sender
				seen.take(&packet, now)
			}
		}
		if now.Before(due) {
			continue
		}
		due = now.Add(feedbackEvery)
		if packets := recorder.BuildFeedbackPacket(); len(packets) > 0 {
			if answer, err := rtcp.Marshal(packets); err == nil {
				_, _ = socket.WriteToUDPAddrPort(answer, from)
			}
		}
	}
}

// viewer measures frames as somebody sees them: one that is whole after a later one is lost.
type viewer struct {
	came       map[uint32]int // packets of frames that are not whole yet
	bytes      map[uint32]int
	shown      uint32
	delaysMs   []float64
	wholeBytes int
	frozen     []time.Duration
	last       time.Time // when a frame was whole
	latest     time.Time // when a packet came
}

func (v *viewer) take(packet *rtp.Packet, now time.Time) {
	var of head
	if _, err := binary.Decode(packet.Payload, binary.BigEndian, &of); err != nil || of.Frame <= v.shown {
		return
	}
	if v.came == nil {
		v.came, v.bytes, v.last = map[uint32]int{}, map[uint32]int{}, now
	}
	v.latest = now
	v.came[of.Frame]++
	v.bytes[of.Frame] += len(packet.Payload)
	if v.came[of.Frame] < int(of.Count) {
		return
	}
	v.delaysMs = append(v.delaysMs, float64(now.UnixNano()-of.CapturedNs)/1e6)
	v.wholeBytes += v.bytes[of.Frame]
	if pause := now.Sub(v.last); pause > freeze {
		v.frozen = append(v.frozen, pause)
	}
	v.shown, v.last = of.Frame, now
	for earlier := range v.came {
		if earlier <= of.Frame {
			delete(v.came, earlier)
			delete(v.bytes, earlier)
		}
	}
}

func (v *viewer) report() any {
	if len(v.delaysMs) == 0 {
		return map[string]any{}
	}
	if pause := v.latest.Sub(v.last); pause > freeze { // the picture stayed to the end
		v.frozen = append(v.frozen, pause)
	}
	slices.Sort(v.delaysMs)
	var frozen time.Duration
	for _, pause := range v.frozen {
		frozen += pause
	}
	// the nearest rank, as of tables of packets
	at := func(share float64) float64 { return v.delaysMs[int(share*float64(len(v.delaysMs)-1)+0.5)] }
	return map[string]any{"frames": map[string]any{
		"whole":    len(v.delaysMs),
		"lost":     int(v.shown) - len(v.delaysMs),
		"bytes":    v.wholeBytes,
		"freezes":  len(v.frozen),
		"frozen_s": frozen.Seconds(),
		"delay_ms": map[string]float64{"p50": at(0.5), "p95": at(0.95), "most": at(1)},
	}}
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
		fmt.Fprintf(os.Stderr, "pion: %v\n", err)
		if errors.Is(err, errCannot) {
			os.Exit(cannotCode)
		}
		os.Exit(1)
	}
}
