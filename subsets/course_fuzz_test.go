package subsets_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/subsets"
)

// FuzzCourse simulates a workload over subsets whose capacity is unknown and changes. In the end, all replicas run if
// the subsets have enough capacity together, and further reconciles change nothing. During the simulation,
// no running Pod is deleted before its replacement runs.
func FuzzCourse(f *testing.F) {
	for seed := range uint64(150) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		c := newCourse(t, seed)
		for range 3 {
			for i := range c.zones {
				c.zones[i].room = c.rng.IntN(6)
			}
			c.replicas = c.rng.IntN(10)
			c.run(20)
		}
		c.zones[len(c.zones)-1].room = 100
		c.run(300)
		c.expectRest("after the outages")
		for i := range c.zones { // from here on no capacity is lost
			c.zones[i].room += c.rng.IntN(6)
		}
		c.neverBelow = c.replicas - c.unmet()
		c.run(300)
		c.expectRest("after the comeback")
	})
}

const tick = 15 * time.Second

// runner is a Pod of the simulation.
type runner struct {
	pod      *corev1.Pod
	runs     time.Time // when the Pod began to run; zero while pending
	reserved *bool
}

// zone is a subset with a capacity (room) that the controller does not know.
type zone struct {
	room    int
	told    int
	mark    subsets.Mark
	runners []*runner
}

// course is the simulated world and its controller.
type course struct {
	*testing.T

	rng        *rand.Rand
	now        time.Time
	reserve    bool
	subsets    list
	lo, hi     []int
	rules      *subsets.Rules
	policy     subsets.Policy
	zones      []zone
	replicas   int
	neverBelow int
	quiet      int // number of reconciles in a row without a change
	left       int
}

func newCourse(t *testing.T, seed uint64) *course {
	c := &course{T: t, rng: rand.New(rand.NewPCG(seed, 5)), now: start, policy: subsets.Policy{PendingFor: time.Minute, ClosedFor: 5 * time.Minute}}
	c.reserve = c.rng.IntN(2) == 0
	n := 1 + c.rng.IntN(3)
	for i := range n + 1 {
		s, lo, hi := subsets.Subset{Name: fmt.Sprint("s", i)}, 0, 1<<30
		if i < n && c.rng.IntN(2) == 0 {
			hi = 1 + c.rng.IntN(5)
			s.Max = value(fmt.Sprint(hi))
		}
		if c.rng.IntN(3) == 0 {
			lo = 1
			s.Min = value("1")
		}
		c.subsets, c.lo, c.hi = append(c.subsets, s), append(c.lo, lo), append(c.hi, hi)
	}
	config := subsets.Config{Fill: subsets.InOrder, Stay: !c.reserve, Reserve: c.reserve}
	if !c.reserve && c.rng.IntN(3) == 0 {
		config.Fill = subsets.ByWeight
		for i := range c.subsets {
			c.subsets[i].Weight = 1 + c.rng.Int32N(3)
		}
	}
	var err error
	if c.rules, err = subsets.New(config, c.subsets); err != nil {
		t.Fatal(err)
	}
	c.zones = make([]zone, len(c.subsets))
	return c
}

func (c *course) run(passes int) {
	for range passes {
		c.now = c.now.Add(tick)
		for i := range c.zones {
			c.zones[i].schedule(c.now)
		}
		c.pass()
		if n := c.running(); n < c.neverBelow {
			c.Fatalf("%d run, there were %d: %s", n, c.neverBelow, c.told())
		}
	}
}

// schedule lets Pods run up to the capacity, and stops Pods beyond the capacity.
func (z *zone) schedule(now time.Time) {
	n := 0
	for _, r := range z.runners {
		if n++; n > z.room {
			r.runs, r.pod = time.Time{}, pendingSince(r.pod, now)
			continue
		}
		if r.runs.IsZero() {
			r.runs, r.pod = now, readySince(now)
		}
	}
}

func readySince(now time.Time) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)},
	}}}
}

// pendingSince returns the Pod if the Pod is pending, and otherwise a pending replacement.
func pendingSince(pod *corev1.Pod, now time.Time) *corev1.Pod {
	if pod != nil && pod.Status.Phase == corev1.PodPending {
		return pod
	}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now)}, Status: corev1.PodStatus{
		Phase:      corev1.PodPending,
		Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}},
	}}
}

// pass simulates a reconcile of the controller.
func (c *course) pass() {
	states := make([]subsets.State, len(c.zones))
	for i := range c.zones {
		states[i] = c.observe(&c.zones[i])
	}
	d, err := c.rules.Divide(c.replicas, states)
	if err != nil {
		c.Fatal(err)
	}
	c.quiet, c.left = c.quiet+1, d.Left
	for i := range c.zones {
		z := &c.zones[i]
		if d.Replicas[i] != z.told {
			c.quiet = 0
		}
		if c.reserve && z.mark.Standing == subsets.OnTrial {
			z.mark.Standing = subsets.Open
			if d.Replicas[i] > z.told {
				z.mark.Standing = subsets.Closed
			}
		}
		z.told = d.Replicas[i]
		z.carryOut(c.now)
	}
}

func (c *course) observe(z *zone) subsets.State {
	stuck, reserved, running := 0, 0, 0
	for _, r := range z.runners {
		if !r.runs.IsZero() {
			running++
		} else if is, _ := c.policy.IsStuck(r.pod, c.now); is {
			stuck++
		}
		is, _ := c.policy.IsReserved(r.pod, r.reserved, z.mark.Standing, c.now)
		if r.reserved = &is; is {
			reserved++
		}
	}
	s := subsets.State{Replicas: z.told, Settled: running}
	if !c.reserve {
		z.mark, _ = c.policy.Next(z.mark, stuck, c.now)
	} else {
		s.Settled = z.told - reserved
		z.mark.Standing = subsets.Proving(z.mark.Standing, reserved)
	}
	s.Standing = z.mark.Standing
	return s
}

// carryOut creates or deletes Pods until the subset has the number of Pods from the division; pending Pods are
// deleted first.
func (z *zone) carryOut(now time.Time) {
	if len(z.runners) > z.told {
		slices.SortStableFunc(z.runners, func(a, b *runner) int {
			switch pending, other := a.runs.IsZero(), b.runs.IsZero(); {
			case other && !pending:
				return -1
			case pending && !other:
				return 1
			}
			return 0
		})
		z.runners = z.runners[:z.told]
	}
	for len(z.runners) < z.told {
		z.runners = append(z.runners, &runner{pod: pendingSince(nil, now)})
	}
}

func (c *course) running() (n int) {
	for i := range c.zones {
		for _, r := range c.zones[i].runners {
			if !r.runs.IsZero() {
				n++
			}
		}
	}
	return n
}

// unmet returns the number of Pods that minimums require and for which there is no capacity. These Pods count as
// replicas unless Reserve is set.
func (c *course) unmet() (n int) {
	for i := range c.zones {
		if !c.reserve {
			n += max(c.lo[i]-c.zones[i].room, 0)
		}
	}
	return n
}

// expectRest checks that all replicas run, and that the last reconciles changed nothing.
func (c *course) expectRest(when string) {
	if n := c.running(); n < c.replicas-c.unmet() {
		c.Fatalf("%s %d run: %s", when, n, c.told())
	}
	if c.quiet < 100 || c.left > 0 {
		c.Fatalf("%s there is no rest for more than %d passes, %d left: %s", when, c.quiet, c.left, c.told())
	}
	if extra := c.running() - c.replicas; extra > 0 {
		c.Fatalf("%s %d Pods run too many: %s", when, extra, c.told())
	}
}

func (c *course) told() string {
	s := fmt.Sprintf("reserve %v, %d of %+v", c.reserve, c.replicas, c.subsets)
	for i := range c.zones {
		z := &c.zones[i]
		s += fmt.Sprintf("\n%s: told %d, room for %d, %+v", c.subsets[i].Name, z.told, z.room, z.mark)
	}
	return s
}
