package webhookcert_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/rand"
	"testing"
	"time"

	"github.com/workloadkit/workloadkit/webhookcert"
)

// history has all versions of an object in the API server, with their times.
type history[T any] struct {
	at     []time.Time
	values []T
}

func (h *history[T]) latest() int { return len(h.values) - 1 }

func (h *history[T]) add(at time.Time, value T) {
	h.at = append(h.at, at)
	h.values = append(h.values, value)
}

// look advances view, the index of the version that an observer has seen, at random. The index never decreases, and
// the version includes every change older than lag.
func (h *history[T]) look(random *rand.Rand, view *int, now time.Time, lag time.Duration) {
	for *view < h.latest() && !h.at[*view+1].After(now.Add(-lag)) {
		*view++
	}
	switch newer := h.latest() - *view; random.Intn(8) {
	case 0:
		*view = h.latest()
	case 1:
		*view += random.Intn(newer + 1)
	}
}

type secretVersion struct {
	data     map[string][]byte
	material *webhookcert.Material
}

// server is a replica that serves and decides from the versions that the replica has seen.
type server struct {
	secret    int
	objects   [2]int
	disturbed time.Time
	pending   *pendingPatch

	decidedOn struct {
		secret   int
		injected bool
	}
	decision webhookcert.Decision
}

// pendingPatch is a patch that the API server has not received yet.
type pendingPatch struct {
	object, expected int
	m                *webhookcert.Material
}

type simulation struct {
	t       *testing.T
	policy  *webhookcert.Policy
	random  *rand.Rand
	lag     time.Duration
	now     time.Time
	secret  history[secretVersion]
	objects [2]history[*webhookcert.Material]
	servers [3]server
	clients [3][2]int

	// verified holds the results of verifications since the last requested rotation.
	verified           map[[2]*webhookcert.Material]error
	rotations, pairs   int
	handshakes, failed int
	real               int
	firstFailure       string
}

func newSimulation(t *testing.T, seed int64, lag time.Duration) *simulation {
	t.Helper()
	p := policy(t, func(c *webhookcert.Config) { c.LeafValidity = 12 * time.Hour })
	s := &simulation{t: t, policy: p, random: rand.New(rand.NewSource(seed)), lag: lag, now: t0}
	s.verified = map[[2]*webhookcert.Material]error{}
	s.writeSecret(settled(t, p, t0))
	for i := range s.objects {
		s.objects[i].add(t0, s.secret.values[0].material)
	}
	return s
}

func (s *simulation) writeSecret(data map[string][]byte) {
	s.t.Helper()
	m, err := s.policy.Read(data)
	if err != nil {
		s.t.Fatal(err)
	}
	s.secret.add(s.now, secretVersion{data: data, material: m})
}

// run runs the simulation until the given number of authorities have been rotated.
func (s *simulation) run(rotations int) {
	for limit := 0; s.rotations < rotations; limit++ {
		if limit > rotations*2000 {
			s.t.Fatalf("stuck at rotation %d: %v", s.rotations, s.policy.Decide(
				s.secret.values[s.secret.latest()].data, webhookcert.Observation{Injected: true}, s.now).Reason)
		}
		s.now = s.now.Add(time.Duration(s.random.Int63n(int64(s.policy.Config().Overlap / 5))))
		s.request()
		for _, i := range s.random.Perm(len(s.servers)) {
			s.act(&s.servers[i])
		}
		for i := range s.clients {
			for o := range s.objects {
				s.objects[o].look(s.random, &s.clients[i][o], s.now, s.lag)
			}
		}
		s.handshakeAll()
	}
}

// request requests the next rotation when no rotation is in progress.
func (s *simulation) request() {
	head := s.secret.values[s.secret.latest()]
	if _, asked := head.data["rotate"]; head.material.Stage == stageStable && !asked {
		s.writeSecret(with(head.data, "rotate", "now"))
		if s.rotations%25 == 0 {
			clear(s.verified)
		}
	}
}

// act lets a replica take a step.
func (s *simulation) act(r *server) {
	s.secret.look(s.random, &r.secret, s.now, s.lag)
	if p := r.pending; p != nil && s.random.Intn(3) == 0 {
		if s.objects[p.object].latest() == p.expected {
			s.objects[p.object].add(s.now, p.m)
		}
		r.pending = nil
	}
	injected := true
	for o := range s.objects {
		s.objects[o].look(s.random, &r.objects[o], s.now, s.lag)
		have := s.objects[o].values[r.objects[o]]
		if s.sameBundle(have, s.secret.values[r.secret].material) {
			continue
		}
		injected, r.disturbed = false, s.now
		r.secret = s.secret.latest() // a replica reads the Secret from the API server, after the object and before the patch
		if m := s.secret.values[r.secret].material; r.pending == nil && !s.sameBundle(have, m) {
			r.pending = &pendingPatch{object: o, expected: r.objects[o], m: m}
		}
	}
	s.step(r, injected)
}

// sameBundle reports whether an object holds the bundle of a version of the Secret.
func (s *simulation) sameBundle(a, b *webhookcert.Material) bool {
	return a == b || bytes.Equal(a.Bundle, b.Bundle)
}

// step decides, and writes the Secret if the replica has seen its latest version.
func (s *simulation) step(r *server, injected bool) {
	if r.secret != s.secret.latest() {
		return // a write would be a conflict
	}
	on := r.decidedOn
	due := !r.decision.Again.IsZero() && !s.now.Before(r.decision.Again)
	if on.secret != r.secret || on.injected != injected || due || r.decision.Write {
		r.decidedOn.secret, r.decidedOn.injected = r.secret, injected
		r.decision = s.policy.Decide(s.secret.values[r.secret].data,
			webhookcert.Observation{Injected: injected, Disturbed: r.disturbed}, s.now)
	}
	if !r.decision.Write {
		return
	}
	before := s.secret.values[r.secret].material.Stage
	s.writeSecret(issue(s.t, r.decision))
	if after := s.secret.values[s.secret.latest()].material.Stage; before == stageSwitched && after == stageStable {
		s.rotations++
	}
}

// handshakeAll checks handshakes of every client with every server, with the bundle in every object.
func (s *simulation) handshakeAll() {
	for i := range s.servers {
		m := s.secret.values[s.servers[i].secret].material
		for _, views := range s.clients {
			for o, view := range views {
				s.handshakes++
				if err := s.handshake(m, s.objects[o].values[view]); err != nil {
					s.failed++
					if s.firstFailure == "" {
						s.firstFailure = fmt.Sprintf("rotation %d, server %d (%s): %v", s.rotations, i, m.Stage, err)
					}
				}
			}
		}
	}
}

// handshake verifies each pair of leaf and bundle once, and again at random. Every fiftieth pair is verified over a
// TLS connection.
func (s *simulation) handshake(m, trusted *webhookcert.Material) error {
	pair := [2]*webhookcert.Material{m, trusted}
	err, known := s.verified[pair]
	if known && s.random.Intn(1000) != 0 {
		return err
	}
	s.pairs++
	if err = verify(s.policy, m.Certificate.Leaf, trusted.Bundle, s.now); s.pairs%50 == 0 {
		s.real++
		if overWire := connect(s.policy, m, trusted.Bundle, s.now); (overWire == nil) != (err == nil) {
			s.t.Errorf("over a connection %v, by verification %v", overWire, err)
		}
	}
	s.verified[pair] = err
	return err
}

func connect(p *webhookcert.Policy, m *webhookcert.Material, bundle []byte, now time.Time) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return m.Certificate, nil
	}})
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }()
	go func() {
		if conn, err := listener.Accept(); err == nil {
			_, _ = conn.Read(make([]byte, 1)) // makes the handshake, and returns when the client closes the connection
			_ = conn.Close()
		}
	}()
	conn, err := tls.Dial("tcp", listener.Addr().String(),
		&tls.Config{RootCAs: roots, ServerName: p.ServerName(), Time: func() time.Time { return now }})
	if err != nil {
		return err
	}
	return conn.Close()
}

// TestNoFailedHandshake checks the guarantee in the package comment in 1,000 rotations: three servers and three API
// servers see each change of the Secret and of the objects up to an overlap late, and patches are slow.
func TestNoFailedHandshake(t *testing.T) {
	for seed := range int64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			s := newSimulation(t, seed, 10*time.Minute)
			s.run(250)
			if s.failed > 0 {
				t.Errorf("%d of %d handshakes failed, the first in %s", s.failed, s.handshakes, s.firstFailure)
			}
			t.Logf("%d rotations in %v, %d handshakes checked, %d pairs of leaf and bundle verified, %d of them over a connection",
				s.rotations, s.now.Sub(t0).Round(time.Hour), s.handshakes, s.pairs, s.real)
		})
	}
}

// TestBeyondTheOverlap shows that handshakes fail if servers see changes more than an overlap late.
func TestBeyondTheOverlap(t *testing.T) {
	t.Parallel()
	s := newSimulation(t, 1, 25*time.Minute)
	s.run(50)
	if s.failed == 0 {
		t.Errorf("none of %d handshakes failed with observers that lag 25 minutes and an overlap of 10", s.handshakes)
	}
	t.Logf("%d of %d handshakes failed, the first in %s", s.failed, s.handshakes, s.firstFailure)
}
