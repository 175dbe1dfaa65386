package disruption_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/disruption"
)

// FuzzLedger: several webhooks and a controller work on the same ledger, and read stale versions. For any sequence of
// requests, counts, ended Pods and delays, no request is admitted if too few Pods would remain in service.
func FuzzLedger(f *testing.F) {
	for seed := range uint64(1000) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		w := &world{T: t, rng: rand.New(rand.NewPCG(seed, 1)), now: start}
		w.begin()
		for range 400 {
			w.step()
		}
	})
}

// These are the longest delays. The controller sees the effect of an admitted request within the default times of a
// Policy.
const (
	latestRequest = 2 * time.Second // from the webhook's answer to the Pod's change
	latestEffect  = 2 * time.Second // from the change until the Pod does not serve
	latestView    = 4 * time.Second // from a change of a Pod until the controller's cache shows the change
)

// life is a simulated Pod.
type life struct {
	name       string
	uid        types.UID
	created    time.Time
	generation int64
	serves     bool
	gone       bool
	// promised is when the last operation on the Pod was admitted; zero if the operation has taken effect, or never
	// will.
	promised time.Time
	ends     bool      // whether the operation deletes the Pod; otherwise it changes the Pod
	open     bool      // whether the Pod is changed without a gate: the Pod's conditions do not show the change at once
	takes    time.Time // when the operation takes effect; zero for never
	back     time.Time // when the Pod serves again
}

// view is the content of a cache at a given time.
type view struct {
	at   time.Time
	pods []disruption.Member
}

type world struct {
	*testing.T

	rng    *rand.Rand
	policy disruption.Policy
	now    time.Time
	pods   []*life
	views  []view
	// counted is the time of the newest state that the controller has counted. The controller's cache never shows an older
	// state afterwards.
	counted time.Time
	need    int32
	// settled says that a readiness gate is closed during each change, so that Pods show the end of the change.
	settled bool
	// ledgers are all stored versions, the newest last. A writer must have read the newest version.
	ledgers []disruption.Ledger
	made    int
}

func (w *world) begin() {
	for range 3 + w.rng.IntN(8) {
		w.create().serves = true
	}
	w.need, w.settled = int32(1+w.rng.IntN(len(w.pods))), w.rng.IntN(2) == 0
	w.ledgers = []disruption.Ledger{{}}
	w.see()
}

// create creates a Pod, sometimes with the name of a deleted Pod.
func (w *world) create() *life {
	w.made++
	p := &life{name: fmt.Sprint("pod-", w.made), created: w.now, generation: 1}
	if w.settled || w.rng.IntN(2) == 0 {
		p.uid = types.UID(fmt.Sprint(w.made))
	}
	for _, former := range w.pods {
		if former.gone && w.rng.IntN(2) == 0 && !slices.ContainsFunc(w.pods, func(o *life) bool { return !o.gone && o.name == former.name }) {
			p.name = former.name
		}
	}
	w.pods = append(w.pods, p)
	return p
}

// pod returns the Pod as stored by the API server.
func (p *life) pod() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: p.name, UID: p.uid, CreationTimestamp: metav1.NewTime(p.created.Truncate(time.Second)), Generation: p.generation,
	}}
}

func (w *world) see() {
	v := view{at: w.now}
	for _, p := range w.pods {
		if !p.gone {
			member := disruption.MemberOf(p.pod(), p.serves)
			member.Settled = w.settled
			v.pods = append(v.pods, member)
		}
	}
	w.views = append(w.views, v)
}

func (w *world) step() {
	switch n := w.rng.IntN(10); {
	case n < 4:
		w.ask()
	case n < 7:
		w.count()
	default:
		w.pass(time.Duration(w.rng.IntN(1500)) * time.Millisecond)
	}
	w.see()
}

// pass advances the time, and carries out admitted operations.
func (w *world) pass(d time.Duration) {
	w.now = w.now.Add(d)
	for _, p := range slices.Clone(w.pods) {
		switch {
		case p.gone:
		case !p.promised.IsZero() && p.takes.IsZero() && w.now.Sub(p.promised) > latestRequest+latestEffect:
			p.promised = time.Time{} // somebody else has refused the operation
		case !p.promised.IsZero() && !p.takes.IsZero() && !w.now.Before(p.takes):
			p.promised, p.serves = time.Time{}, false
			if p.gone = p.ends; p.gone {
				w.create().back = w.now.Add(time.Duration(w.rng.IntN(3000)) * time.Millisecond)
			} else {
				p.back = w.now.Add(time.Duration(w.rng.IntN(9000)) * time.Millisecond)
				if !p.open {
					p.generation++
				}
			}
		case !p.serves && !w.now.Before(p.back):
			p.serves = true
		}
	}
}

// count is a reconcile of the controller, with Pods from a stale cache. count starts from the newest version of the
// ledger: with an older version, the write would only get a conflict.
func (w *world) count() {
	seen := w.views[len(w.views)-1]
	for _, v := range w.views {
		if w.now.Sub(v.at) <= latestView && !v.at.Before(w.counted) && w.rng.IntN(3) == 0 {
			seen = v
			break
		}
	}
	w.counted = seen.at
	read := w.stale()
	if read != len(w.ledgers)-1 {
		return // a conflict
	}
	need := intstr.FromInt32(w.need)
	counted, err := w.policy.Count(w.ledgers[read], disruption.Census{
		Generation: 1, Expected: new(max(int32(len(seen.pods)), w.need)), Bounds: disruption.Bounds{MinAvailable: &need}, Members: seen.pods,
	}, w.now)
	if err != nil {
		w.Fatal(err)
	}
	w.ledgers = append(w.ledgers, counted.Ledger)
}

// stale returns the index of a random, recent version of the ledger.
func (w *world) stale() int {
	return max(len(w.ledgers)-1-w.rng.IntN(6)/4, 0)
}

// ask lets a webhook decide about a request.
func (w *world) ask() {
	p := w.pods[w.rng.IntN(len(w.pods))]
	if p.gone {
		return
	}
	op := []disruption.Operation{disruption.Delete, disruption.Evict, disruption.Update, disruption.Resize}[w.rng.IntN(4)]
	request := disruption.Request{Operation: op, OutOfService: !p.serves, Pod: p.pod(), Generation: 1, Gated: w.settled && w.rng.IntN(2) == 0}
	read := w.stale()
	after, decision := w.policy.Decide(w.ledgers[read], request, w.now)
	if decision.Changed {
		if read != len(w.ledgers)-1 {
			return // a conflict
		}
		w.ledgers = append(w.ledgers, after)
	}
	if !decision.Admitted || !p.serves {
		return
	}
	p.promised, p.takes, p.ends = w.now, time.Time{}, op == disruption.Delete || op == disruption.Evict
	if w.rng.IntN(4) > 0 {
		p.takes = w.now.Add(time.Duration(w.rng.Int64N(int64(latestRequest + latestEffect))))
		if p.open = !p.ends && !request.Gated; p.open {
			p.generation++
		}
	}
	serve := int32(0)
	for _, p := range w.pods {
		if !p.gone && p.serves && p.promised.IsZero() {
			serve++
		}
	}
	if serve < w.need {
		w.Fatalf("%s of %s leaves %d Pods in service, and %d have to be; ledger %+v, decision %+v", op, p.name, serve, w.need, w.ledgers[len(w.ledgers)-1], decision)
	}
}
