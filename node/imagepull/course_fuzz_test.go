package imagepull_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/node/imagepull"
)

// FuzzCourse takes a Node through random events: jobs are created and deleted, pulls succeed and fail, images are
// deleted, and the agent dies before or after it records reports. No step exceeds the Bounds. In the end every claim
// has a result, although the agent runs only after the waits in Step.After and at the ends of pulls.
func FuzzCourse(f *testing.F) {
	for seed := range uint64(400) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		n := &node{t: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 11)), now: at(0), images: map[imagepull.Reference]bool{}}
		n.bounds = bounds{Pulls: n.rand.IntN(4), Registries: imagepull.Registries{"docker.io", "reg.io/ok"}}
		if n.chance(3) {
			n.bounds.Floor = 50
		}
		for range 150 {
			n.move()
		}
		n.settle()
	})
}

// node simulates a Node: its container runtime, its agent, and its API object.
type node struct {
	t    *testing.T
	seed uint64
	rand *rand.Rand
	now  time.Time

	wants   []want
	reports []report
	bounds  bounds
	images  map[imagepull.Reference]bool
	pulls   []pull
	ends    []time.Time // the ends of the pulls
	free    uint64
	calm    bool
}

func (n *node) chance(one int) bool { return n.rand.IntN(one) == 0 }

func (n *node) failf(format string, args ...any) {
	n.t.Helper()
	n.t.Fatalf("seed %d at %v: %s\nwants: %s\nreports: %+v\npulls: %+v", n.seed, n.now.Sub(at(0)), fmt.Sprintf(format, args...), short(n.wants), n.reports, n.pulls)
}

func (n *node) image() imagepull.Reference {
	return ref([]string{"a", "b:v1", "reg.io/ok/c@" + sum, "reg.io/no/d", "e"}[n.rand.IntN(5)])
}

func (n *node) owner() imagepull.Owner { return imagepull.Owner(rune('u' + n.rand.IntN(4))) }

// move makes one random event happen.
func (n *node) move() {
	switch n.rand.IntN(9) {
	case 0:
		p := policy{Always: n.chance(4), Keep: n.chance(4), Retries: n.rand.IntN(4) - 1, Timeout: time.Minute}
		if n.chance(3) {
			p.Deadline = ptr.To(2 * time.Minute)
		}
		wants, err := imagepull.AddClaim(n.wants, n.reports, n.image(), claim{Owner: n.owner(), Since: n.now, Policy: p})
		if err != nil {
			n.failf("claim: %v", err)
		}
		n.wants = wants
	case 1:
		n.wants = imagepull.Release(n.wants, n.owner(), n.image())
	case 2:
		delete(n.images, n.image())
	case 3:
		n.pulls, n.ends = nil, nil // a new agent starts
	case 4:
		n.free = 40 + uint64(n.rand.IntN(100))
	case 5, 6:
		n.now = n.now.Add(time.Duration(n.rand.IntN(40_000)) * time.Millisecond)
	default:
		n.look()
	}
}

// observe reads the ended pulls first, then the images, as Observed requires.
func (n *node) observe() observed {
	o := observed{Listed: n.calm || !n.chance(8), Free: &n.free}
	for i := range n.pulls {
		p := &n.pulls[i]
		if !n.now.Before(n.ends[i]) {
			if p.Ended = true; p.Stopping || n.chance(3) || p.Image == ref("e") {
				p.Err = errors.New("refused")
			} else {
				n.images[p.Image] = true
			}
		}
	}
	o.Pulls = slices.Clone(n.pulls)
	o.Pulls = slices.DeleteFunc(o.Pulls, func(p pull) bool { return p.Stopping && p.Ended })
	for r := range n.images {
		i := image{ID: "i", Bytes: 10, Tags: []string{r.Normal(), "<none>:<none>"}}
		if r.Digest() != "" {
			i.Tags, i.Digests = nil, i.Tags
		}
		o.Images = append(o.Images, i)
	}
	return o
}

// look runs the agent once. The agent may die before or after it records the reports.
func (n *node) look() time.Duration {
	o := n.observe()
	s := imagepull.Next(n.wants, n.reports, o, n.bounds, n.now)
	n.check(s, o)
	if !n.calm && n.chance(8) {
		n.pulls, n.ends = nil, nil
		return s.After
	}
	before := n.reports
	n.reports, _ = imagepull.Merge(n.wants, n.reports, s.Reports, n.now)
	n.checkAnswers(before)
	if !n.calm && n.chance(8) {
		n.pulls, n.ends = nil, nil
		return s.After
	}
	for i := len(n.pulls) - 1; i >= 0; i-- {
		p := &n.pulls[i]
		if slices.Contains(s.Actions, imagepull.Action{Do: imagepull.Stop, Image: p.Image, Round: p.Round}) {
			p.Stopping = true
			n.ends[i] = n.now.Add(time.Duration(n.rand.IntN(20)) * time.Second)
		}
		if p.Ended {
			n.pulls, n.ends = slices.Delete(n.pulls, i, i+1), slices.Delete(n.ends, i, i+1)
		}
	}
	for _, a := range s.Actions {
		if a.Do == imagepull.Start {
			n.pulls = append(n.pulls, pull{Image: a.Image, Round: a.Round})
			n.ends = append(n.ends, n.now.Add(min(a.Limit, time.Duration(n.rand.IntN(90))*time.Second)))
		}
	}
	return s.After
}

// check checks the guarantees of each step.
func (n *node) check(s imagepull.Step, o observed) {
	if len(n.wants) > 0 && s.After <= 0 || len(s.Reports) != len(n.wants) {
		n.failf("nobody looks again, or reports are missing: %+v", s)
	}
	inProgress, stops := 0, 0
	for _, p := range o.Pulls {
		if !p.Ended {
			inProgress++
		}
	}
	started := map[imagepull.Reference]bool{}
	for _, a := range s.Actions {
		if a.Do == imagepull.Stop {
			if stops++; started[a.Image] {
				n.failf("a stop after the start: %+v", s)
			}
			continue
		}
		i := slices.IndexFunc(s.Reports, func(r report) bool { return r.Image == a.Image })
		w := n.wants[i]
		switch r := s.Reports[i]; {
		case started[a.Image]:
			n.failf("two pulls of %v: %+v", a.Image, s)
		case r.Phase != imagepull.Pulling || r.Round != w.Round || r.Attempts < 1 || a.Round != w.Round:
			n.failf("the start is not recorded: %+v", s)
		case r.Attempts > w.Policy().Retries+1:
			n.failf("too many attempts: %+v", s)
		case a.Image.Repository() == "reg.io/no/d":
			n.failf("not allowed: %+v", s)
		case n.bounds.Floor > 0 && n.free <= n.bounds.Floor:
			n.failf("no room on the disk: %+v", s)
		case a.Limit <= 0 || a.Limit > w.Policy().Timeout:
			n.failf("not limited: %+v", s)
		case !o.Listed, r.Present && !w.Policy().Always:
			n.failf("pulled although present or unknown: %+v", s)
		}
		started[a.Image] = true
	}
	if len(started) > 0 && inProgress+len(started) > max(n.bounds.Pulls, 1) {
		n.failf("too many pulls: %+v", s)
	}
	for i, r := range s.Reports {
		if w := n.wants[i]; r.Image != w.Image || r.Round != w.Round || o.Listed && r.Phase != imagepull.Succeeded && r.Present != n.images[r.Image] {
			n.failf("wrong report: %+v", r)
		}
	}
}

// checkAnswers checks that a job that is Done stays Done, and that a Broken job can only become Done.
func (n *node) checkAnswers(before []report) {
	for _, w := range n.wants {
		for _, c := range w.Claims {
			was := imagepull.Judge(n.wants, before, w.Image, c.Owner, n.now).State
			is := imagepull.Judge(n.wants, n.reports, w.Image, c.Owner, n.now).State
			if was == imagepull.Done && is != was || was == imagepull.Broken && is != was && is != imagepull.Done {
				n.failf("%s of %s was %s, and is %s; before: %+v", w.Image, c.Owner, was, is, before)
			}
		}
	}
}

// settle lets the agent run without further events, only after the waits in Step.After and at the ends of pulls.
func (n *node) settle() {
	n.calm, n.free = true, 1000
	for end := n.now.Add(2 * time.Hour); ; {
		after := n.look()
		open := 0
		for _, w := range n.wants {
			for _, c := range w.Claims {
				switch s := imagepull.Judge(n.wants, n.reports, w.Image, c.Owner, n.now); s.State {
				case imagepull.Active, imagepull.Silent:
					open++
				case imagepull.Done:
					if w.Image.Repository() == "reg.io/no/d" && !n.images[w.Image] {
						n.failf("done, and not allowed")
					}
				}
			}
		}
		if open == 0 {
			return
		}
		for _, e := range n.ends {
			if wait := e.Sub(n.now); wait > 0 {
				after = min(after, wait)
			}
		}
		if n.now = n.now.Add(after); n.now.After(end) {
			n.failf("%d claims are not answered: %+v", open, imagepull.Next(n.wants, n.reports, n.observe(), n.bounds, n.now))
		}
	}
}

// TestNoLoop: if the kubelet deletes an image again immediately after each pull, the image is pulled less and less
// often.
func TestNoLoop(t *testing.T) {
	wants := wanted(policy{Keep: true}, "a")
	var reports []report
	starts, now := 0, at(0)
	var running []pull
	for now.Before(at(7 * 24 * 3600)) {
		s := imagepull.Next(wants, reports, with(stored(), running...), bounds{Registries: imagepull.Registries{"*"}}, now)
		reports, _ = imagepull.Merge(wants, reports, s.Reports, now)
		running = nil
		for _, a := range s.Actions {
			starts++
			running = append(running, pull{Image: a.Image, Round: a.Round, Ended: true})
		}
		now = now.Add(s.After)
	}
	// The waits of 1 to 128 minutes are over within the first 5 hours, then a pull takes place every 4 hours.
	if starts < 40 || starts > 1+8+42 {
		t.Errorf("%d pulls in a week", starts)
	}
	if s := imagepull.Judge(wants, reports, ref("a"), "x", now); s.State != imagepull.Done {
		t.Errorf("the job is %+v", s)
	}
}
