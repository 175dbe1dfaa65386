package subsets_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/rollout/partition"
	"github.com/workloadkit/workloadkit/subsets"
)

// FuzzDivide checks for any subsets and states that a division has the right sum and keeps the bounds, that a
// division that was carried out does not change, and that more replicas never remove Pods from a subset.
func FuzzDivide(f *testing.F) {
	for seed := range uint64(500) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		for n := range uint64(20) {
			newProblem(t, seed, n).check()
		}
	})
}

// problem is a random input of Divide.
type problem struct {
	*testing.T

	rng      *rand.Rand
	config   subsets.Config
	subsets  list
	states   []subsets.State
	replicas int
	lo, hi   []int // bounds in Pods
	rules    *subsets.Rules
}

func newProblem(t *testing.T, seed, n uint64) *problem {
	rng := rand.New(rand.NewPCG(seed, n))
	p := &problem{T: t, rng: rng, replicas: rng.IntN(20), config: subsets.Config{
		Fill:     []subsets.Fill{subsets.InOrder, subsets.ByWeight, subsets.Fixed}[rng.IntN(3)],
		Rounding: partition.Rounding(rng.IntN(3)), //nolint:gosec // small
		Stay:     rng.IntN(2) == 0, Reserve: rng.IntN(3) == 0,
	}}
	p.config.Reserve = p.config.Reserve && p.config.Fill == subsets.InOrder
	p.config.Stay = p.config.Stay && !p.config.Reserve
	left := p.replicas
	for i := range 1 + rng.IntN(6) {
		s := subsets.Subset{Name: fmt.Sprint("s", (i+5)%7)}
		lo, hi := 0, 1<<30
		if p.config.Fill == subsets.Fixed {
			if rng.IntN(2) == 0 && i > 0 {
				lo = rng.IntN(left/2 + 1)
				hi = lo
				left -= lo
				s.Replicas = ptr.To(intstr.FromInt(lo))
			}
		} else {
			if rng.IntN(2) == 0 {
				hi = rng.IntN(10)
				s.Max = ptr.To(intstr.FromInt(hi))
			}
			if rng.IntN(2) == 0 {
				lo = min(rng.IntN(4), hi)
				s.Min = ptr.To(intstr.FromInt(lo))
			}
		}
		if p.config.Fill == subsets.ByWeight {
			s.Weight = 1 + rng.Int32N(7)
		}
		p.subsets, p.lo, p.hi = append(p.subsets, s), append(p.lo, lo), append(p.hi, hi)
		p.states = append(p.states, p.state())
	}
	var err error
	if p.rules, err = subsets.New(p.config, p.subsets); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *problem) state() subsets.State {
	s := subsets.State{Replicas: p.rng.IntN(8)}
	s.Settled = p.rng.IntN(s.Replicas + 1)
	s.Standing = []subsets.Standing{"", subsets.Open, subsets.Closed, subsets.OnTrial}[p.rng.IntN(4)]
	if p.config.Reserve && s.Standing == "" {
		s.Standing = subsets.Open
	}
	if p.rng.IntN(4) == 0 {
		s.Capacity = ptr.To(s.Settled + p.rng.IntN(4))
	}
	return s
}

func (p *problem) divide(replicas int, states []subsets.State) subsets.Division {
	d, err := p.rules.Divide(replicas, states)
	if err != nil {
		p.Fatalf("%d of %+v with %+v: %v", replicas, p.subsets, states, err)
	}
	return d
}

// room returns the largest number of Pods that a subset may have if the subset is open.
func (p *problem) room(i int) int {
	if c := p.states[i].Capacity; c != nil {
		return min(p.hi[i], *c)
	}
	return p.hi[i]
}

func (p *problem) check() {
	d := p.divide(p.replicas, p.states)
	told := func() string {
		return fmt.Sprintf("%+v\n%d of %+v\nwith %+v\ngive %v", p.config, p.replicas, p.subsets, p.states, d)
	}
	p.sums(d, told)
	p.bounds(d, told)
	p.staying(d, told)
	p.again(d, told)
	p.more(d, told)
	p.comeback(told)
	p.reference(told)
}

func (p *problem) sums(d subsets.Division, told func() string) {
	sum := d.Left
	for i, n := range d.Replicas {
		sum += n
		if p.config.Reserve {
			sum -= d.Reserved[i]
			if d.Reserved[i] < 0 || d.Reserved[i] > n {
				p.Fatalf("%d of %d reserved: %s", d.Reserved[i], n, told())
			}
		}
	}
	if sum != p.replicas || d.Left < 0 {
		p.Fatalf("the sum is %d: %s", sum, told())
	}
	if d.Left > 0 && len(d.Limits) == 0 {
		p.Fatalf("nothing says why Pods are left: %s", told())
	}
}

func (p *problem) bounds(d subsets.Division, told func() string) {
	least := 0
	for i := range p.subsets {
		least += min(p.lo[i], p.room(i))
	}
	for i, n := range d.Replicas {
		s := p.states[i]
		if n < 0 || n > p.room(i) {
			p.Fatalf("subset %d beyond its bounds: %s", i, told())
		}
		if n < min(p.lo[i], p.room(i)) && least <= p.replicas {
			p.Fatalf("subset %d below its minimum: %s", i, told())
		}
		lo := min(p.lo[i], p.room(i))
		if s.Standing == subsets.Closed {
			most := s.Settled
			if p.config.Reserve {
				most = s.Replicas
			}
			if n > max(most, lo) {
				p.Fatalf("closed subset %d grows: %s", i, told())
			}
			if p.config.Reserve && n-d.Reserved[i] > s.Settled {
				p.Fatalf("pending Pods of subset %d count: %s", i, told())
			}
		}
		trial := p.config.Reserve && s.Standing == subsets.OnTrial
		if d.Left > 0 && s.Standing != subsets.Closed && !trial && n < p.room(i) {
			p.Fatalf("Pods are left, and subset %d has room: %s", i, told())
		}
	}
}

// staying checks that with Stay a subset keeps its settled Pods, unless a minimum needs the replicas or there are too
// few replicas.
func (p *problem) staying(d subsets.Division, told func() string) {
	if !p.config.Stay {
		return
	}
	floors, sum := make([]int, len(p.subsets)), 0
	for i := range p.subsets {
		floors[i] = max(min(p.states[i].Settled, p.room(i)), min(p.lo[i], p.room(i)))
		if p.config.Fill == subsets.Fixed {
			floors[i] = min(floors[i], p.hi[i])
		}
		sum += floors[i]
	}
	for i, n := range d.Replicas {
		if sum <= p.replicas && n < floors[i] {
			p.Fatalf("settled Pods of subset %d move: %s", i, told())
		}
	}
}

// again checks that a division that was carried out does not change, whether the new Pods have settled or not.
func (p *problem) again(d subsets.Division, told func() string) {
	for _, settled := range []bool{false, true} {
		next := slices.Clone(p.states)
		for i, n := range d.Replicas {
			next[i].Replicas = n
			reserved := 0
			if p.config.Reserve {
				reserved = d.Reserved[i]
			}
			next[i].Settled = min(next[i].Settled, n)
			if settled && next[i].Standing != subsets.Closed && next[i].Standing != subsets.OnTrial {
				next[i].Settled = n - reserved
			}
		}
		if e := p.divide(p.replicas, next); !slices.Equal(d.Replicas, e.Replicas) {
			p.Fatalf("then %v, settled: %v: %s", e.Replicas, settled, told())
		}
	}
}

// more checks that a division of more replicas removes no Pod from any subset.
func (p *problem) more(d subsets.Division, told func() string) {
	for i := range p.subsets {
		if p.subsets[i].Replicas != nil {
			return // fixed shares would not add up to the larger number of replicas
		}
	}
	before := d
	for k := 1; k < 8; k++ {
		after := p.divide(p.replicas+k, p.states)
		for i := range after.Replicas {
			if after.Replicas[i] < before.Replicas[i] {
				p.Fatalf("%d more replicas take Pods from subset %d, %v: %s", k, i, after.Replicas, told())
			}
		}
		before = after
	}
}

// comeback checks divisions after all subsets are open again. Without Stay, the division is the same as for a
// workload whose subsets were never closed. With Stay, additional replicas go to a preferred subset until the subset
// has its share.
func (p *problem) comeback(told func() string) {
	if p.config.Fill == subsets.Fixed {
		return
	}
	open := slices.Clone(p.states)
	for i := range open {
		open[i].Standing, open[i].Capacity = subsets.Open, nil
	}
	d := p.divide(p.replicas, open)
	if !p.config.Stay {
		if never := p.divide(p.replicas, zeroed(open)); !slices.Equal(d.Replicas, never.Replicas) {
			p.Fatalf("%v after the comeback, %v without: %s", d.Replicas, never.Replicas, told())
		}
		return
	}
	if p.config.Fill != subsets.InOrder {
		return
	}
	more := p.divide(p.replicas+5, open)
	for i := range d.Replicas {
		for j := i + 1; j < len(d.Replicas); j++ {
			floor := max(d.Replicas[j], open[j].Settled, p.lo[j])
			if more.Replicas[j] > floor && more.Replicas[i] < p.hi[i] {
				p.Fatalf("subset %d grows before %d, %v: %s", j, i, more.Replicas, told())
			}
		}
	}
}

// zeroed returns the states without settled Pods. The numbers of Pods are kept, because they decide between equal
// subsets.
func zeroed(states []subsets.State) []subsets.State {
	out := slices.Clone(states)
	for i := range out {
		out[i].Settled = 0
	}
	return out
}

// reference compares a division without Stay and Reserve with a simple algorithm that distributes one Pod after the
// other.
func (p *problem) reference(told func() string) {
	if p.config.Fill == subsets.InOrder || p.config.Stay || p.config.Reserve {
		return
	}
	n, left := make([]int, len(p.subsets)), p.replicas
	caps := make([]int, len(p.subsets))
	weight := func(i int) int { return max(int(p.subsets[i].Weight), 1) }
	for i := range n {
		lo := min(p.lo[i], p.room(i))
		if caps[i] = p.room(i); p.states[i].Standing == subsets.Closed {
			caps[i] = max(lo, min(p.states[i].Settled, caps[i]))
		}
		n[i] = min(lo, left)
		left -= n[i]
	}
	for ; left > 0; left-- {
		best := -1
		for i := range n {
			if n[i] < caps[i] && (best < 0 || p.before(n, weight, i, best)) {
				best = i
			}
		}
		if best < 0 {
			break
		}
		n[best]++
	}
	if d := p.divide(p.replicas, p.states); !slices.Equal(n, d.Replicas) {
		p.Fatalf("one after the other gives %v: %s", n, told())
	}
}

func (p *problem) before(n []int, weight func(int) int, i, j int) bool {
	if c := cmp.Compare((2*n[i]+1)*weight(j), (2*n[j]+1)*weight(i)); c != 0 {
		return c < 0
	}
	if p.config.Fill == subsets.Fixed {
		return cmp.Or(p.states[i].Replicas-p.states[j].Replicas, cmp.Compare(p.subsets[i].Name, p.subsets[j].Name)) > 0
	}
	if has, other := p.states[i].Replicas > n[i], p.states[j].Replicas > n[j]; has != other {
		return has
	}
	return i < j
}
