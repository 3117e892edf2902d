// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors

package main

import (
	"math"
	"time"
)

// The constants have the names and values of draft-johansson-ccwg-rfc8298bis-screamv2; times are
// in seconds, sizes in bytes, rates in bit/s.
const (
	qdelayTargetLo      = 0.06
	qdelayTargetHi      = 0.4
	qdelayAvgG          = 1.0 / 4
	qdelayDevAvgG       = 1.0 / 64
	qdelayDevNorm       = 0.025
	minQueueDelayDev    = 0.1
	minRefWnd           = 3000
	inFlightHeadRoom    = 1.5
	betaLoss            = 0.7
	betaECN             = 0.8
	mss                 = headerBytes + payloadBytes
	postCongestionRTTs  = 100
	mulIncreaseFactor   = 0.02
	virtualRTT          = 0.025
	avgGUp              = 1.0 / 8
	avgGDown            = 1.0 / 128
	overheadMin         = 1.5
	overheadMax         = 3.0
	ratePaceMin         = 50_000
	pacingHeadroom      = 1.5
	maxRelaxedPacing    = 4.0
	relaxedPacingLow    = 0.8
	packetOverhead      = 20
	rateAdjustGain      = 1.0 / 16
	frameSizeDevAlpha   = 1.0 / 64
	targetBitrateMin    = 300_000
	targetBitrateMax    = 50_000_000
	framePeriod         = 1.0 / framesPerS
	lossEventGain       = 0.01 // the draft names none; RTTs with losses among the last hundred or so
	targetUpdateSeconds = 0.05 // the draft names none; 200 values are ten seconds
	missedSeconds       = 1.0
)

// packet is a sent packet whose fate is open.
type packet struct {
	sequence  uint16
	size      float64
	sentAt    float64
	upTo      float64 // bytes sent when it had left
	missedAt  float64 // when a later one was first acknowledged; 0 before
	delivered bool
	lost      bool
}

// arrival is what feedback reports on a packet.
type arrival struct {
	sequence uint16
	at       float64 // by the receiver's clock
	marked   bool
}

// scream is the sender's side of SCReAM version 2 for one stream, by the draft's section 4.
//
// It leaves out the draft's remedy for drifting clocks, and the history of bytes in flight at the
// highest rate, which the draft leaves to its authors' program.
type scream struct {
	l4s bool

	open                       []packet
	sentBytes, ackedBytes      float64
	maxInFlight, maxInFlightPv float64
	roundBegins                float64

	sRTT                         float64
	baseDelay                    float64
	qdelay, qdelayAvg, qdelayDev float64
	qdelayTarget, qdelayAt       float64
	norms                        []float64 // queue delay in units of its lowest target, the last 200
	normAt                       float64

	delivered, marked float64 // packets since l4s_alpha was updated
	alpha, alphaAt    float64
	reordering        float64
	lossRate          float64
	lostThisRound     bool
	pendingLoss       bool // since the last reaction
	pendingMark       bool
	detectedAt        float64
	reactedAt         float64

	refWnd, refWndI, refWndIAt float64
	target                     float64
	adjust, frameSizeDev       float64
	packetsLost, packetsMarked int
}

func newScream(l4s bool) *scream {
	return &scream{
		l4s: l4s, refWnd: minRefWnd, refWndI: 1, baseDelay: math.Inf(1), qdelayTarget: qdelayTargetLo,
		sRTT: 0.1, target: targetBitrateMin,
	}
}

func (s *scream) inFlight() float64 { return s.sentBytes - s.ackedBytes }

func (s *scream) wndRatio() float64 { return math.Min(1, mss/s.refWnd) }

// devThreshold is the draft's qdelay_dev_norm_th.
func (s *scream) devThreshold() float64 { return math.Max(0.05, 0.1*(1-s.wndRatio()/0.1)) }

// calm is 1 where the queue's delay is steady, 0 where it varies by the threshold or more.
func (s *scream) calm() float64 { return math.Max(0, 1-s.qdelayDev/s.devThreshold()) }

// sendWindow returns how many bytes may leave now (section "Send Window Calculation").
func (s *scream) sendWindow() float64 {
	return s.refWnd*(overheadMin+(overheadMax-overheadMin)*s.calm()) - s.inFlight()
}

// pace returns the time between a packet of this size and the next one (section "Packet Pacing").
func (s *scream) pace(size int) time.Duration {
	relaxed := math.Min(1, (s.target/targetBitrateMax-relaxedPacingLow)/(1-relaxedPacingLow))
	scale := math.Min(1, math.Max(1/maxRelaxedPacing, 1-relaxed))
	rate := math.Max(ratePaceMin, s.target) * pacingHeadroom / scale
	return time.Duration(float64(size) * 8 / rate * float64(time.Second))
}

func (s *scream) sent(sequence uint16, size int, now float64) {
	s.sentBytes += float64(size)
	s.open = append(s.open, packet{sequence: sequence, size: float64(size), sentAt: now, upTo: s.sentBytes})
	s.maxInFlight = math.Max(s.maxInFlight, s.inFlight())
}

// feedback takes a report whose arrivals are in the order of sequence numbers. `held` is how long
// the receiver had the last one of them.
func (s *scream) feedback(now float64, held float64, arrivals []arrival) {
	if len(arrivals) == 0 {
		return
	}
	last := arrivals[len(arrivals)-1]
	before, near := s.ackedBytes, s.nearMaximum()
	var markedBytes, highestSent float64
	came := map[uint16]arrival{}
	for _, one := range arrivals {
		came[one.sequence] = one
	}
	for i := range s.open {
		p := &s.open[i]
		if one, ok := came[p.sequence]; ok && !p.delivered {
			p.delivered = true
			s.delivered++
			if one.marked {
				s.marked++
				s.packetsMarked++
				s.pendingMark = true
				markedBytes += p.size
			}
			if p.missedAt > 0 {
				s.reordering = math.Max(s.reordering, now-p.missedAt)
			}
		}
		if p.sequence == last.sequence && p.upTo > s.ackedBytes {
			s.ackedBytes, highestSent = p.upTo, p.sentAt
		}
	}
	s.findLosses(now)
	if s.ackedBytes > before {
		s.measure(now, now-highestSent-held, last.at-highestSent)
	}
	s.updateAlpha(now)
	s.updateQdelay(now)
	s.updateRound(now)
	s.reduce(now, near)
	s.increase(now, near, s.ackedBytes-before-markedBytes)
	s.setTarget()
}

// findLosses declares packets lost that stay missing for the reordering window (section "Detecting
// Lost Data Units"), and keeps them for a while, as one that comes after all widens that window.
func (s *scream) findLosses(now float64) {
	kept := s.open[:0]
	for _, p := range s.open {
		if p.delivered {
			continue
		}
		if p.upTo < s.ackedBytes {
			if p.missedAt == 0 {
				p.missedAt = now
			}
			if !p.lost && now-p.missedAt >= s.reordering {
				p.lost = true
				s.packetsLost++
				s.pendingLoss, s.lostThisRound = true, true
			}
			if now-p.missedAt > missedSeconds {
				continue
			}
		}
		kept = append(kept, p)
	}
	s.open = kept
}

// measure takes a sample of the RTT (RFC 6298 section 2) and of the one-way delay, whose excess over
// the least is the queue's (RFC 6817 section 3.4.2; a trial is shorter than its ten minutes).
func (s *scream) measure(now, rtt, oneWay float64) {
	if math.IsInf(s.baseDelay, 1) { // the first sample
		s.sRTT = rtt
	} else {
		s.sRTT += (rtt - s.sRTT) / 8
	}
	s.baseDelay = math.Min(s.baseDelay, oneWay)
	s.qdelay = oneWay - s.baseDelay
	if now-s.normAt >= targetUpdateSeconds {
		s.normAt = now
		s.adjustTarget()
	}
}

// updateAlpha follows the share of marked packets, upwards faster than downwards (section "Receiving
// ECN-CE for L4S").
func (s *scream) updateAlpha(now float64) {
	if now-s.alphaAt < math.Min(0.01, s.sRTT) || s.delivered == 0 {
		return
	}
	if share := s.marked / s.delivered; share >= s.alpha {
		s.alpha += avgGUp * (share - s.alpha)
	} else {
		s.alpha -= avgGDown * s.alpha
	}
	s.alphaAt, s.delivered, s.marked = now, 0, 0
}

// updateQdelay averages the queue's delay and its variation (section "Detecting Increased Queue
// Delay").
func (s *scream) updateQdelay(now float64) {
	if now-s.qdelayAt < math.Min(virtualRTT, s.sRTT) {
		return
	}
	s.qdelayAt = now
	if s.qdelay < s.qdelayAvg {
		s.qdelayAvg = s.qdelay
	} else {
		s.qdelayAvg += qdelayAvgG * (s.qdelay - s.qdelayAvg)
	}
	normed := (s.qdelay - qdelayDevNorm/4) / qdelayDevNorm
	s.qdelayDev += qdelayDevAvgG * (math.Max(0, math.Min(s.devThreshold()*1.5, normed)) - s.qdelayDev)
}

// updateRound begins a new round trip.
func (s *scream) updateRound(now float64) {
	if now-s.roundBegins < s.sRTT {
		return
	}
	s.roundBegins = now
	s.maxInFlightPv, s.maxInFlight = s.maxInFlight, s.inFlight()
	s.lossRate *= 1 - lossEventGain
	if s.lostThisRound {
		s.lossRate += lossEventGain
	}
	s.lostThisRound = false
}

// adjustTarget raises the target of the queue's delay beside flows that react to losses alone
// (section "Competing Flows Compensation").
func (s *scream) adjustTarget() {
	s.norms = append(s.norms, s.qdelay/qdelayTargetLo)
	if len(s.norms) > 200 {
		s.norms = s.norms[1:]
	}
	_, variance := moments(s.norms)
	mean, _ := moments(s.norms[max(0, len(s.norms)-50):])
	wanted := (mean + math.Sqrt(variance)) * qdelayTargetLo
	switch {
	case s.lossRate > 0.002:
		s.qdelayTarget = 1.5 * wanted
	case variance < 0.2:
		s.qdelayTarget = wanted
	case wanted < qdelayTargetLo:
		s.qdelayTarget = math.Max(s.qdelayTarget*0.5, wanted)
	default:
		s.qdelayTarget *= 0.9
	}
	s.qdelayTarget = math.Max(qdelayTargetLo, math.Min(qdelayTargetHi, s.qdelayTarget))
}

func moments(values []float64) (mean, variance float64) {
	for _, value := range values {
		mean += value / float64(len(values))
	}
	for _, value := range values {
		variance += (value - mean) * (value - mean) / float64(len(values))
	}
	return mean, variance
}

// nearMaximum is 0.1 at the window of the last congestion and 1 far from it.
func (s *scream) nearMaximum() float64 {
	away := 8 * (s.refWnd - s.refWndI) / s.refWndI
	return math.Max(0.1, math.Min(1, away*away))
}

// reduce makes the window smaller, at most once in a round trip (section "Reference Window
// Reduction").
func (s *scream) reduce(now, near float64) {
	if s.pendingLoss || s.pendingMark {
		s.detectedAt = now
	}
	if now-s.reactedAt < math.Min(virtualRTT, s.sRTT) {
		return
	}
	loss, mark := s.pendingLoss, s.pendingMark && !s.pendingLoss
	late := !loss && !mark && s.qdelayAvg > s.qdelayTarget/2
	if !loss && !mark && !late {
		return
	}
	if now-s.refWndIAt > 10*s.sRTT {
		s.refWndIAt, s.refWndI = now, s.refWnd
	}
	gentle := math.Max(1, s.sRTT/virtualRTT)
	switch {
	case loss:
		s.refWnd *= betaLoss
	case mark && !s.l4s:
		s.refWnd *= betaECN
	case mark:
		cut := s.alpha / 2 / gentle
		if s.qdelay < s.qdelayTarget/4 {
			cut *= math.Max(0.25, near) * math.Max(minQueueDelayDev, s.calm())
		}
		if now-s.reactedAt > 100*math.Max(virtualRTT, s.sRTT) {
			s.refWnd = math.Min(s.refWnd, s.maxInFlightPv)
		}
		s.refWnd *= 1 - cut
	default:
		half := s.qdelayTarget / 2
		s.refWnd *= 1 - math.Min(1, (s.qdelayAvg-half)/half)/2/gentle
	}
	s.refWnd = math.Max(minRefWnd, s.refWnd)
	s.reactedAt, s.pendingLoss, s.pendingMark = now, false, false
}

// increase makes the window larger by what was acknowledged without a mark (section "Reference
// Window Increase").
func (s *scream) increase(now, near, cleanBytes float64) {
	since := (now - s.detectedAt) / (postCongestionRTTs * math.Max(virtualRTT, s.sRTT))
	growth := cleanBytes * s.wndRatio() * math.Min(1, s.sRTT/virtualRTT) * math.Max(0.25, near)
	growth *= math.Max(minQueueDelayDev, s.calm())
	growth *= 1 + mulIncreaseFactor*s.refWnd/mss*math.Max(0, math.Min(1, since))*near
	most := mss + math.Max(s.maxInFlight, s.maxInFlightPv)*inFlightHeadRoom
	if s.refWnd+growth <= most && s.target < targetBitrateMax {
		s.refWnd += growth
	}
}

// setTarget turns the window into a rate for the encoder (section "Media Rate Control").
func (s *scream) setTarget() {
	scale := (1 - math.Min(0.2, math.Max(0, s.wndRatio()-0.1))) * mss / (mss + packetOverhead)
	scale /= 1.2 + s.adjust + s.frameSizeDev
	s.target = math.Min(targetBitrateMax, math.Max(targetBitrateMin, scale*8*s.refWnd/s.sRTT))
}

// frame takes the size of a new frame, and how long the oldest packet has waited to leave.
func (s *scream) frame(size int, waited float64) {
	s.adjust += (waited - framePeriod/4) / framePeriod * rateAdjustGain
	s.adjust = math.Min(0.5, math.Max(0, s.adjust))
	nominal := s.target * framePeriod / 8
	over := math.Max(0, (float64(size)-nominal)/nominal)
	s.frameSizeDev = math.Min(0.2, s.frameSizeDev+frameSizeDevAlpha*(over-s.frameSizeDev))
}
