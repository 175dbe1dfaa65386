package uniteddeployment

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

// proportional is a Deployment of Kubernetes with two ReplicaSets, a maxSurge of 25% and a maxUnavailable of 25%.
// Pods at the new revision are never scheduled.
type proportional struct{ want, old, new, most int }

func (d *proportional) surge() int { return int(math.Ceil(float64(d.want) * .25)) }

// roll continues the rolling update until nothing is left to do.
func (d *proportional) roll() {
	if room := min(d.want+d.surge()-d.old-d.new, d.want-d.new); room > 0 {
		d.new += room
	}
	d.old = min(d.old, d.want-d.want/4)
}

// scale divides the smaller number in proportion between both ReplicaSets, as the Deployment controller does. The
// larger ReplicaSet is scaled first.
func (d *proportional) scale(want int) {
	d.want = want
	allowed := want + d.surge()
	first, second := &d.old, &d.new
	if d.new > d.old {
		first, second = second, first
	}
	if over := d.old + d.new - allowed; over > 0 && want > 0 {
		share := func(n, left int) int { return min(n-int(math.Round(float64(n*allowed)/float64(d.most))), left) }
		a := share(*first, over)
		b := share(*second, over-a)
		*first, *second = *first-(over-b), *second-b
	}
	d.most = allowed
	d.roll()
}

// pods returns the Pods of the Deployment.
func (d *proportional) pods(now time.Time) (pods []*corev1.Pod) {
	for i := range d.old {
		pod := podAt(fmt.Sprint("old", i), "web-0", true, false)
		pod.Spec.NodeName = "n"
		pods = append(pods, pod)
	}
	for i := range d.new {
		pod := podAt(fmt.Sprint("new", i), "web-1", false, true)
		pod.CreationTimestamp = metav1.NewTime(now.Add(-time.Minute))
		pods = append(pods, pod)
	}
	return pods
}

// TestClosedDeployment: if the workload of a closed subset is a Deployment, the replicas are reduced once, and
// reduced again only after the substitutes are ready. A Deployment also deletes running Pods, so each reduction
// leaves fewer running Pods.
func TestClosedDeployment(t *testing.T) {
	for _, c := range []struct {
		name  string
		ready bool // substitutes are ready after three reconciliations
		want  []int
	}{
		{"substitutes are not ready", false, []int{8}},
		{"substitutes are ready in time", true, []int{8, 6, 5, 4, 3, 2, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ud := small(t, all([]string{"replicas: 5", "replicas: 10"}, deployment(), adaptive(""))...)
			have, _ := mustBuild(t, ud, numbers{replicas: 10})
			other, _ := mustBuild(t, ud, numbers{})
			a, b := stored(have, "web"), stored(other, "other")
			b.GetLabels()[apps.LabelSubsetName] = "b"
			d := &proportional{want: 10, old: 10, most: 13}
			d.roll()
			now, substitutes, since, got := time.Unix(1_800_000_000, 0), 0, 0, []int(nil)
			for pass := range 60 {
				var others []*corev1.Pod
				for i := range substitutes {
					others = append(others, podAt(fmt.Sprint("b", i), "web-1", c.ready && pass-since > 3, false))
				}
				*partsOf(a).own, *partsOf(b).own = new(int32(d.want)), new(int32(substitutes))
				o := &observation{
					ud: ud, settings: mustResolve(t, ud), revision: "web-1", workloads: []workload{a, b}, now: now,
					pods: func(uid types.UID) []*corev1.Pod {
						return map[types.UID][]*corev1.Pod{"web": d.pods(now), "other": others}[uid]
					},
				}
				todo := decide(o)
				ud.Status = nextStatus(o, todo, outcome{}, nil)
				if now = now.Add(time.Second); todo.division.Replicas[0] == d.want || todo.remember {
					continue
				}
				d.scale(todo.division.Replicas[0])
				substitutes, since, got = todo.division.Replicas[1], pass, append(got, d.want)
				if ready := d.old + substitutes; c.ready && ready < 8 {
					t.Errorf("pass %d: %d Pods and substitutes", pass, ready)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("replicas of a (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSettledNumbers: a StatefulSet deletes the Pods with the highest ordinals first. So the Pods of all ordinals up
// to the highest ordinal of a scheduled Pod must stay.
func TestSettledNumbers(t *testing.T) {
	start := func(kind []string) []string {
		return all(kind, []string{podMeta, "        ordinals: {start: 5}\n" + podMeta})
	}
	for _, c := range []struct {
		name    string
		edits   []string
		gate    bool
		ordinal []int // of Pods with a Node
		want    int
	}{
		{"the lowest is pending", set(), false, []int{1, 2}, 3},
		{"the highest is pending", set(), false, []int{0, 1}, 2},
		{"all are pending", set(), false, nil, 0},
		{"beyond the replicas", set(), false, []int{0, 3}, 1},
		{"from the start on", start(set()), false, []int{6}, 2},
		{"below the start", start(set()), false, []int{1}, 0},
		{"of this group", advanced(), false, []int{1}, 2},
		{"of this group, without the gate", start(advanced()), false, []int{1}, 2},
		{"of this group, from the start on", start(advanced()), true, []int{6}, 2},
		{"reserved numbers", all(advanced(), []string{podMeta, "        reserveOrdinals: [1]\n" + podMeta}), false, []int{2}, 2},
		{"CloneSets have no numbers", nil, false, []int{2}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			ud := small(t, all(c.edits, adaptive(""))...)
			have, _ := mustBuild(t, ud, numbers{replicas: 3})
			p := &part{have: stored(have, "db")}
			for i := range 7 {
				pod := podAt(fmt.Sprint("db-", i), "web-1", false, true)
				if slices.Contains(c.ordinal, i) {
					pod.Spec.NodeName = "n"
				}
				p.pods = append(p.pods, pod)
			}
			o := &observation{ud: ud, settings: mustResolve(t, ud), revision: "web-1", fromStart: c.gate}
			if got := o.state(p); got.Settled != c.want {
				t.Errorf("%d settled, want %d", got.Settled, c.want)
			}
		})
	}
}
