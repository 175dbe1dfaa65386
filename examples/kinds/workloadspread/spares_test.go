package workloadspread

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/subsets"
)

// hurry is an office, that is a manager with a webhook, for which many Pods are created per second.
type hurry struct {
	*office

	spread *v1beta1.WorkloadSpread
	owner  *appsv1.Deployment
	pods   int
}

func newHurry(t *testing.T, most int32) *hurry {
	h := &hurry{office: newOffice(t), spread: &v1beta1.WorkloadSpread{ObjectMeta: inShop("web")}, owner: &appsv1.Deployment{ObjectMeta: inShop("web")}}
	h.spread.Spec.TargetReference = v1beta1.WorkloadSpreadTarget{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	limit := intstr.FromInt32(most)
	h.spread.Spec.Subsets = []v1beta1.WorkloadSpreadSubset{{Name: "a", MaxReplicas: &limit}, {Name: "b"}}
	h.create(true, h.spread, h.owner)
	h.spread.Status.ObservedGeneration = 1
	h.must(h.user.Status().Update(t.Context(), h.spread))
	h.deliver()
	return h
}

// ask requests a subset for a Pod, delivers the event of the write to the cache, and reports whether there was a
// write.
func (h *hurry) ask(named bool) (subset string, wrote bool) {
	h.t.Helper()
	pod := controlled(&corev1.Pod{ObjectMeta: inShop("")}, h.owner, "Deployment").(*corev1.Pod)
	if pod.GenerateName = "web-"; named {
		pod.Name = fmt.Sprint("web-", h.pods)
	}
	h.pods++
	before := h.version()
	h.must(h.webhook.spread(h.t.Context(), pod))
	h.deliver()
	if m, marked := markOf(pod, "web"); marked && m.Subset == "a" && !h.awaits(m.UID) && !h.awaits(pod.Name) {
		h.t.Errorf("Pod %d has a place that is not in the ledger: %+v", h.pods, m)
	}
	return subsetOf(pod), h.version() != before
}

func (h *hurry) version() string {
	h.must(h.user.Get(h.t.Context(), client.ObjectKeyFromObject(h.spread), h.spread))
	return h.spread.ResourceVersion
}

func (h *hurry) awaits(key string) bool {
	h.version()
	return awaits(bookOf(h.spread.Status.VersionedSubsetStatuses[apps.SubsetVersionIgnored]), key)
}

// taken returns how many places of the subset a are taken.
func (h *hurry) taken() int {
	h.version()
	return bookOf(h.spread.Status.VersionedSubsetStatuses[apps.SubsetVersionIgnored]).Line("a").Taken()
}

// fill takes places in advance, as the webhook's runnable does, if the webhook has requested further places. called
// is false without a request.
func (h *hurry) fill() (called bool) {
	select {
	case p := <-h.webhook.spares.calls:
		h.must(h.webhook.fill(h.t.Context(), p))
		h.deliver()
		return true
	default:
		return false
	}
}

// giveBack frees expired spares (places taken in advance), as the webhook's runnable does.
func (h *hurry) giveBack() {
	unused, spreads, _ := h.webhook.spares.expire()
	for p, keys := range unused {
		h.must(h.webhook.giveBackUnused(h.t.Context(), spreads[p], p.version, keys))
	}
	h.deliver()
}

// TestSpares: if many Pods without a name are created per second, the Pods get places in subsets that were taken in
// advance. Unused places are freed.
func TestSpares(t *testing.T) {
	h := newHurry(t, 1000)
	for range rush - 1 {
		if subset, wrote := h.ask(false); subset != "a" || !wrote {
			t.Fatalf("subset %q, a write: %t", subset, wrote)
		}
	}
	if h.fill() {
		t.Fatal("places are taken ahead at a low rate")
	}
	h.ask(false)
	if want := rush + 2*rush; !h.fill() || h.taken() != want {
		t.Fatalf("%d places are taken, want %d", h.taken(), want)
	}
	for i := range rush {
		if subset, wrote := h.ask(false); subset != "a" || wrote {
			t.Fatalf("Pod %d: subset %q, a write: %t", i, subset, wrote)
		}
	}
	if subset, wrote := h.ask(true); subset != "a" || !wrote {
		t.Errorf("a Pod with a name: subset %q, a write: %t", subset, wrote)
	}
	if !h.fill() {
		t.Fatal("nobody fills up")
	}
	h.clock.SetTime(h.clock.Now().Add(3 * time.Second))
	if subset, wrote := h.ask(false); subset != "a" || !wrote {
		t.Errorf("after 3 s, of places that end: subset %q, a write: %t", subset, wrote)
	}
	h.giveBack()
	if want := h.pods; h.taken() != want {
		t.Errorf("%d places are taken by %d Pods", h.taken(), want)
	}
}

// TestLastSpares: if a subset is full only because of spares (places taken in advance), the last of many Pods get
// these places. Otherwise these Pods would get no subset.
func TestLastSpares(t *testing.T) {
	const most = rush + 8
	h := newHurry(t, most)
	for range rush {
		h.ask(false)
	}
	if !h.fill() || h.taken() == rush {
		t.Fatal("no places are taken ahead")
	}
	for h.taken() < most { // Pods with names use no spares
		h.ask(true)
	}
	for h.pods < most {
		if subset, wrote := h.ask(false); subset != "a" || wrote {
			t.Fatalf("Pod %d: subset %q, a write: %t", h.pods, subset, wrote)
		}
	}
	if subset, _ := h.ask(false); subset != "b" {
		t.Errorf("one Pod more: subset %q", subset)
	}
}

// TestSparesOnTheWay: if a subset is full only because of places that this process is taking in advance at the same
// moment, a Pod gets one of these places.
func TestSparesOnTheWay(t *testing.T) {
	for _, c := range []struct {
		name   string
		others []v1beta1.WorkloadSpreadSubset
	}{{"without a further subset", nil}, {"before a subset without a maximum", []v1beta1.WorkloadSpreadSubset{{Name: "b"}}}} {
		t.Run(c.name, func(t *testing.T) {
			h := newHurry(t, rush+6)
			h.version()
			h.spread.Spec.Subsets = append(h.spread.Spec.Subsets[:1], c.others...)
			h.must(h.user.Update(t.Context(), h.spread))
			h.deliver()
			for range rush {
				h.ask(false)
			}
			p := <-h.webhook.spares.calls
			keys := []string{"key-0", "key-1", "key-2"}
			h.webhook.spares.request(p, keys)
			ahead, err := changeBooks(t.Context(), h.webhook, h.spread, keys[0], func(s *settings, books ledger, places []subsets.Place) (ledger, []spare, bool) {
				return s.takeAhead(books, places, p.version, keys, h.clock.Now())
			})
			if h.must(err); len(ahead) != 3 {
				t.Fatalf("%d places are taken ahead, want 3", len(ahead))
			}
			h.deliver()
			for range 3 { // use up the free places
				h.ask(false)
			}
			ask := func(want string) {
				t.Helper()
				if got, wrote := h.ask(false); got != want || wrote {
					t.Errorf("subset %q, a write: %t; want %q and none", got, wrote, want)
				}
			}
			ask("a") // the place is being stored
			h.webhook.spares.filled(p, ahead)
			ask("a") // the place is stored
			ask("a")
			last := ""
			if len(c.others) > 0 {
				last = "b"
			}
			ask(last)
		})
	}
}

// TestUnclaim: a place taken in advance that a Pod has got is available again if the place was not written into the
// status.
func TestUnclaim(t *testing.T) {
	h := newHurry(t, 100)
	for range rush {
		h.ask(false)
	}
	p, a := <-h.webhook.spares.calls, h.webhook.spares
	book := subsets.Book{{Name: "a", Creating: times{"key-0": ago(0), "key-1": ago(0)}}}
	a.request(p, []string{"key-0", "key-1"})
	for _, want := range []string{"key-0", "key-1", ""} {
		if got := a.claim(p, book, []string{"a"}); got.key != want {
			t.Errorf("claimed %q, want %q", got.key, want)
		}
	}
	a.unclaim(p, "key-0")
	a.unclaim(p, "")
	a.filled(p, []spare{{"key-0", "a", h.clock.Now()}, {"key-1", "a", h.clock.Now()}})
	if got := a.claim(p, book, []string{"b", "a"}); got.key != "key-0" {
		t.Errorf("claimed %q, want key-0", got.key)
	}
	if got := a.claim(p, book, []string{"a"}); got != (spare{}) {
		t.Errorf("claimed %v, which another Pod has", got)
	}
	a.unclaim(p, "key-0")
	if got := a.claim(p, book, []string{"a"}); got != (spare{}) {
		t.Errorf("claimed %v after the requested places had come", got)
	}
}

// TestSparesEnd: spares (places taken in advance) in a subset are not used while new Pods must get another subset,
// and a failed write leaves no spares.
func TestSparesEnd(t *testing.T) {
	h := newHurry(t, 40)
	for range rush {
		h.ask(false)
	}
	h.fails = true
	if err := h.webhook.fill(t.Context(), <-h.webhook.spares.calls); err == nil {
		t.Fatal("no error")
	}
	h.fails = false
	if _, wrote := h.ask(false); !wrote {
		t.Error("a place without a write, after a failed write")
	}
	if !h.fill() {
		t.Fatal("nobody fills up after a failed write")
	}
	limit := intstr.FromInt32(2)
	h.version()
	h.spread.Spec.Subsets[0].MaxReplicas, h.spread.Generation = &limit, 2
	h.must(h.user.Update(t.Context(), h.spread))
	h.deliver()
	if subset, _ := h.ask(false); subset != "b" {
		t.Errorf("subset %q, although the maximum of a is lower now", subset)
	}
}
