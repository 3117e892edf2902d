// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors

// A sender and receiver of video with SCReAM version 2, by the contract of docs/exec.md.
//
// The encoder is synthetic: 30 frames per second, each as large as the target rate allows, so that
// nothing but the congestion controller decides. The receiver returns the feedback of RFC 8888 and
// measures frames from their capture to their last packet. Nothing is sent again: a frame that
// lacks a packet is lost. One thread runs Go code at a time, so that two trials with the same seed
// do the same.
package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/pion/rtcp"
	"github.com/pion/rtp"
)

const (
	cannotCode   = 127
	framesPerS   = 30
	clockHz      = 90000 // RFC 6184 section 8.2.1
	payloadType  = 96    // the first dynamic one, RFC 3551 section 6
	mediaSSRC    = 1
	payloadBytes = 1200
	headerBytes  = 12
	headBytes    = 16
	logEvery     = 10 * time.Millisecond
	timerSlack   = 2 * time.Millisecond // Go's timers are late by up to one, which the next packets make up for

	// the draft's section on feedback
	feedbackPackets = 16
	feedbackSpan    = 32
	feedbackEvery   = 40 * time.Millisecond
)

// errCannot marks a request that this sender cannot meet, as opposed to one that failed.
var errCannot = errors.New("scream cannot do this")

var codepoints = map[string]int{"not-ect": 0, "ect1": 1, "ect0": 2}

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

// set sets an option of a socket that IPv4 and IPv6 have by different names.
func set(socket *net.UDPConn, v4, v6, value int) error {
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	level, name := syscall.IPPROTO_IP, v4
	if socket.LocalAddr().(*net.UDPAddr).IP.To4() == nil {
		level, name = syscall.IPPROTO_IPV6, v6
	}
	failed := raw.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), level, name, value) })
	return errors.Join(failed, err)
}

// head is the beginning of every payload: frame, which of its packets this is, and how many it has.
type head struct {
	Frame        uint32
	Index, Count uint16
	CapturedNs   int64
}

// waiting is a packet that the encoder has made and that has not left yet.
type waiting struct {
	raw      []byte
	sequence uint16
	since    time.Time
}

// sender is the encoder, the queue of its packets, and the socket.
type sender struct {
	control         *scream
	socket          *net.UDPConn
	begun           time.Time
	queue           []waiting
	free            time.Time // when the next packet may leave
	frames, packets int
	sum, most       float64
	log             *qlog
}

func (s *sender) now() float64 { return time.Since(s.begun).Seconds() }

func send(o options) (any, error) {
	seconds, err := strconv.ParseFloat(o.named["seconds"], 64)
	if err != nil {
		return nil, err
	}
	if cc := o.named["cc"]; cc != "v2" {
		return nil, fmt.Errorf("%w: its congestion control is v2, not %q", errCannot, cc)
	}
	ecn, ok := codepoints[o.named["codepoint"]]
	if !ok {
		return nil, fmt.Errorf("%w: it sends ect1, ect0 or not-ect, not %q", errCannot, o.named["codepoint"])
	}
	to, err := o.address()
	if err != nil {
		return nil, err
	}
	socket, err := net.DialUDP("udp", nil, to)
	if err != nil {
		return nil, err
	}
	if err := set(socket, syscall.IP_TOS, syscall.IPV6_TCLASS, ecn); err != nil {
		return nil, err
	}
	log, err := newQlog(o.named["qlog"])
	if err != nil {
		return nil, err
	}
	s := sender{control: newScream(ecn == 1), socket: socket, begun: time.Now(), log: log}
	if err := s.run(s.begun.Add(time.Duration(seconds * float64(time.Second)))); err != nil {
		return nil, err
	}
	return s.report(), log.close()
}

func (s *sender) run(ends time.Time) error {
	reports := make(chan *rtcp.CCFeedbackReport)
	go func() {
		for raw := make([]byte, 1<<16); ; {
			size, err := s.socket.Read(raw)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			packets, _ := rtcp.Unmarshal(raw[:max(size, 0)]) // an ICMP error is as good as no feedback
			for _, packet := range packets {
				if report, ok := packet.(*rtcp.CCFeedbackReport); ok {
					reports <- report
				}
			}
		}
	}()
	for wake := time.NewTimer(0); time.Now().Before(ends); {
		select {
		case report := <-reports:
			s.take(report)
		case <-wake.C:
		}
		due := s.begun.Add(time.Duration(s.frames) * time.Second / framesPerS)
		if !time.Now().Before(due) {
			if err := s.encode(); err != nil {
				return err
			}
			due = s.begun.Add(time.Duration(s.frames) * time.Second / framesPerS)
		}
		if next := s.transmit(); next.Before(due) {
			due = next
		}
		if ends.Before(due) {
			due = ends
		}
		wake.Reset(time.Until(due))
	}
	return nil
}

// take hands a report to the controller.
func (s *sender) take(report *rtcp.CCFeedbackReport) {
	received := float64(report.ReportTimestamp) / (1 << 16)
	for _, block := range report.ReportBlocks {
		var arrivals []arrival
		var held float64
		for i, metric := range block.MetricBlocks {
			if !metric.Received {
				continue
			}
			held = float64(metric.ArrivalTimeOffset) / 1024
			sequence := block.BeginSequence + uint16(i)
			arrivals = append(arrivals, arrival{sequence, received - held, metric.ECN == rtcp.ECNCE})
		}
		lost := s.control.packetsLost
		s.control.feedback(s.now(), held, arrivals)
		s.log.write(s.now(), s.control, s.control.packetsLost-lost)
	}
}

// encode makes a frame of the target rate.
func (s *sender) encode() error {
	now := time.Now()
	waited := time.Duration(0)
	if len(s.queue) > 0 {
		waited = now.Sub(s.queue[0].since)
	}
	size := max(int(s.control.target/8/framesPerS), headBytes)
	s.control.frame(size, waited.Seconds())
	s.frames, s.sum, s.most = s.frames+1, s.sum+s.control.target, max(s.most, s.control.target)
	of := head{uint32(s.frames), 0, uint16((size + payloadBytes - 1) / payloadBytes), now.UnixNano()}
	for ; of.Index < of.Count; of.Index++ {
		payload := make([]byte, max(min(size-int(of.Index)*payloadBytes, payloadBytes), headBytes))
		if _, err := binary.Encode(payload, binary.BigEndian, of); err != nil {
			return err
		}
		header := rtp.Header{
			Version: 2, PayloadType: payloadType, SSRC: mediaSSRC, SequenceNumber: uint16(s.packets),
			Timestamp: uint32(s.frames * clockHz / framesPerS), Marker: of.Index+1 == of.Count,
		}
		raw, err := (&rtp.Packet{Header: header, Payload: payload}).Marshal()
		if err != nil {
			return err
		}
		s.queue = append(s.queue, waiting{raw, uint16(s.packets), now})
		s.packets++
	}
	return nil
}

// transmit sends what the window and the pace allow, and returns when to try again at the latest.
func (s *sender) transmit() time.Time {
	for len(s.queue) > 0 {
		now := time.Now()
		if now.Before(s.free) {
			return s.free
		}
		first := s.queue[0]
		if s.control.sendWindow() < float64(len(first.raw)) {
			break // feedback opens it
		}
		_, _ = s.socket.Write(first.raw) // a host's full queue is a loss as any other
		s.control.sent(first.sequence, len(first.raw), s.now())
		if earliest := now.Add(-timerSlack); s.free.Before(earliest) {
			s.free = earliest
		}
		s.free = s.free.Add(s.control.pace(len(first.raw)))
		s.queue = s.queue[1:]
	}
	return time.Now().Add(time.Second)
}

func (s *sender) report() any {
	mean := s.sum / float64(max(s.frames, 1))
	target := map[string]float64{"last": s.control.target / 1e6, "most": s.most / 1e6, "mean": mean / 1e6}
	return map[string]any{
		"frames_sent":    s.frames,
		"packets_sent":   s.packets - len(s.queue),
		"packets_lost":   s.control.packetsLost,
		"packets_marked": s.control.packetsMarked,
		"alpha":          s.control.alpha,
		"target_mbps":    target,
		"rtt_ms":         map[string]float64{"smoothed": s.control.sRTT * 1e3},
	}
}

// qlog is a log by draft-ietf-quic-qlog-main-schema.
type qlog struct {
	file *os.File
	out  *bufio.Writer
	last float64
}

func newQlog(path string) (*qlog, error) {
	if path == "" {
		path = os.DevNull
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	log := &qlog{file: file, out: bufio.NewWriter(file), last: -1}
	_, err = fmt.Fprint(log.out, "\x1e", `{"file_schema":"urn:ietf:params:qlog:file:sequential",`,
		`"serialization_format":"application/qlog+json-seq","trace":{"vantage_point":{"type":"client"}}}`, "\n")
	return log, err
}

func (q *qlog) write(now float64, of *scream, lost int) {
	for range lost {
		fmt.Fprintf(q.out, "\x1e{\"time\":%.3f,\"name\":\"quic:packet_lost\",\"data\":{}}\n", now*1e3)
	}
	if now-q.last < logEvery.Seconds() {
		return
	}
	q.last = now
	fmt.Fprintf(q.out, "\x1e{\"time\":%.3f,\"name\":\"quic:recovery_metrics_updated\",\"data\":{"+
		"\"smoothed_rtt\":%.3f,\"congestion_window\":%.0f,\"bytes_in_flight\":%.0f}}\n",
		now*1e3, of.sRTT*1e3, of.refWnd, of.inFlight())
}

// close reports the first error of all writes.
func (q *qlog) close() error {
	return errors.Join(q.out.Flush(), q.file.Close())
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
		fmt.Fprintf(os.Stderr, "scream: %v\n", err)
		if errors.Is(err, errCannot) {
			os.Exit(cannotCode)
		}
		os.Exit(1)
	}
}
