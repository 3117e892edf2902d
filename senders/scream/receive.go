// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors

package main

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/pion/rtcp"
	"github.com/pion/rtp"
)

const freeze = 200 * time.Millisecond

// seen is a packet that came.
type seen struct {
	at  time.Time
	ecn rtcp.ECN
}

// recorder keeps what the next feedback reports.
type recorder struct {
	came    map[uint16]seen
	highest uint16
	fresh   int // packets since the last feedback
}

func (r *recorder) take(sequence uint16, one seen) {
	if r.came == nil {
		r.came, r.highest = map[uint16]seen{}, sequence
	}
	if int16(sequence-r.highest) > 0 {
		for old := r.highest + 1 - feedbackSpan; old != sequence+1-feedbackSpan; old++ {
			delete(r.came, old)
		}
		r.highest = sequence
	}
	if r.highest-sequence < feedbackSpan {
		r.came[sequence] = one
		r.fresh++
	}
}

// feedback returns a report on the last packets (RFC 8888 section 3.1), which repeats some of the
// last one's, as it may be lost.
func (r *recorder) feedback(begun, now time.Time) ([]byte, error) {
	r.fresh = 0
	block := rtcp.CCFeedbackReportBlock{MediaSSRC: mediaSSRC, BeginSequence: r.highest + 1 - feedbackSpan}
	for i := range uint16(feedbackSpan) {
		one, ok := r.came[block.BeginSequence+i]
		metric := rtcp.CCFeedbackMetricBlock{Received: ok}
		if ok {
			metric.ECN = one.ecn
			// the two largest values have other meanings
			metric.ArrivalTimeOffset = uint16(min(now.Sub(one.at)*1024/time.Second, 1<<13-3))
		}
		block.MetricBlocks = append(block.MetricBlocks, metric)
	}
	return rtcp.CCFeedbackReport{
		SenderSSRC: mediaSSRC + 1, ReportBlocks: []rtcp.CCFeedbackReportBlock{block},
		ReportTimestamp: uint32(now.Sub(begun) * (1 << 16) / time.Second),
	}.Marshal()
}

// ecnOf reads the ECN field from what the kernel reports beside a packet.
func ecnOf(beside []byte) rtcp.ECN {
	messages, err := syscall.ParseSocketControlMessage(beside)
	if err != nil {
		return rtcp.ECNNonECT
	}
	for _, message := range messages {
		v4 := message.Header.Level == syscall.IPPROTO_IP && message.Header.Type == syscall.IP_TOS
		v6 := message.Header.Level == syscall.IPPROTO_IPV6 && message.Header.Type == syscall.IPV6_TCLASS
		if (v4 || v6) && len(message.Data) > 0 {
			return rtcp.ECN(message.Data[0] & 3)
		}
	}
	return rtcp.ECNNonECT
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
	if err := set(socket, syscall.IP_RECVTOS, syscall.IPV6_RECVTCLASS, 1); err != nil {
		return nil, err
	}
	go func() { <-ended; socket.Close() }()
	var views viewer
	var record recorder
	var from netip.AddrPort
	begun, due := time.Now(), time.Now().Add(feedbackEvery)
	raw, beside := make([]byte, 1<<16), make([]byte, 256)
	for {
		_ = socket.SetReadDeadline(due)
		size, besides, _, sender, err := socket.ReadMsgUDPAddrPort(raw, beside)
		if errors.Is(err, net.ErrClosed) {
			return views.report(), nil
		}
		now := time.Now()
		var packet rtp.Packet
		marker := false
		if err == nil && packet.Unmarshal(raw[:size]) == nil && len(packet.Payload) >= headBytes {
			from, marker = sender, packet.Marker
			record.take(packet.SequenceNumber, seen{now, ecnOf(beside[:besides])})
			views.take(&packet, now)
		}
		if record.fresh == 0 || (!marker && record.fresh < feedbackPackets && now.Before(due)) {
			if !now.Before(due) {
				due = now.Add(feedbackEvery)
			}
			continue
		}
		due = now.Add(feedbackEvery)
		if answer, err := record.feedback(begun, now); err == nil {
			_, _ = socket.WriteToUDPAddrPort(answer, from)
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
