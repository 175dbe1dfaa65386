package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/revision"
)

// row is the row of a Pod in the table.
type row struct {
	name, revision, node, ip string
	place                    string // the identity of the Pod, such as the Node; the Pod's replacement has the same place
	at                       string // the Node, if the table shows Nodes in place of Pod names
	version                  string // resourceVersion of the Pod's last event
	uid                      types.UID
	restarts                 int32
	ready, gone              bool
	how, why                 string
}

// cause explains an event of a Pod: how names the event in a word, why is the reason, and line is a text that
// contains both.
type cause struct{ how, why, line string }

// chapter explains why Pods are created and deleted in the current part of the show. A nil function gives no
// explanation.
type chapter struct {
	created, deleted func(*corev1.Pod) cause
}

// tally counts the events of Pods since the chapter began.
type tally struct {
	before, after string // places of Pods at the beginning and now, if the Pods have places
	// kept is the number of Pods whose UID, Node and IP address have not changed. updated is the number of kept Pods
	// that have a new revision.
	kept, updated int
	// recreated is the number of places in which a new Pod has replaced a deleted Pod. deleted is the number of Pods
	// that were deleted without a replacement, and created the number of new Pods in places that were empty before.
	recreated, created, deleted int
}

// String returns the tally as a text.
func (t tally) String() string {
	text := fmt.Sprintf("%d Pods kept (%d updated in place), %d recreated, %d created, %d deleted", t.kept, t.updated, t.recreated, t.created, t.deleted)
	if t.before+t.after != "" {
		text += ", " + t.change()
	}
	return text
}

// change returns the places before and after as a text.
func (t tally) change() string { return cmp.Or(t.before, "none") + " -> " + cmp.Or(t.after, "none") }

// touched returns the number of Pods that were updated, recreated, created or deleted.
func (t tally) touched() int { return t.updated + t.recreated + t.created + t.deleted }

// world contains every Pod that an event of the watch has reported.
type world struct {
	mu      sync.Mutex
	place   func(*corev1.Pod) string
	byNode  bool // the table shows Nodes in place of Pod names
	rows    map[types.UID]*row
	chapter chapter
	kept    map[types.UID]row // Pods at the beginning of the chapter
	serving int               // smallest number of ready Pods since the beginning of the chapter
	happens func(string)      // called with every event that is to be printed
}

func newWorld(place func(*corev1.Pod) string) *world {
	return &world{place: place, rows: map[types.UID]*row{}, happens: func(string) {}}
}

func (w *world) observe(event watch.EventType, pod *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { w.serving = min(w.serving, w.ready()) }()
	r := w.rows[pod.UID]
	if r == nil {
		r = &row{name: pod.Name, uid: pod.UID, place: w.place(pod)}
		if w.byNode {
			r.at = r.place
		}
		w.explain(r, pod, w.chapter.created)
		w.rows[pod.UID] = r
	}
	r.version = pod.ResourceVersion
	if event == watch.Deleted || pod.DeletionTimestamp != nil {
		if !r.gone {
			w.explain(r, pod, w.chapter.deleted)
		}
		r.gone, r.ready = true, false
		return
	}
	name := revision.ShortName(pod.Labels[apps.LabelRevision])
	if r.revision != "" && r.revision != name {
		r.how, r.why = "in place", "only images differ"
		w.happens(pod.Name + " updated in place to " + name + ": " + r.why)
	}
	var restarts int32
	for i := range pod.Status.ContainerStatuses {
		restarts += pod.Status.ContainerStatuses[i].RestartCount
	}
	if restarts > r.restarts {
		w.happens(pod.Name + " container restarted; same UID " + string(pod.UID)[:8] + ", same IP " + pod.Status.PodIP)
	}
	r.revision, r.node, r.ip, r.restarts = name, pod.Spec.NodeName, pod.Status.PodIP, restarts
	r.ready = podstate.IsReady(pod)
}

// explain records in the row r why the Pod was created or deleted.
func (w *world) explain(r *row, pod *corev1.Pod, why func(*corev1.Pod) cause) {
	if why == nil {
		return
	}
	c := why(pod)
	r.how, r.why = c.how, c.why
	w.happens(pod.Name + " " + c.line)
}

// ready returns the number of Pods that are ready now.
func (w *world) ready() int {
	n := 0
	for _, r := range w.rows {
		if r.ready {
			n++
		}
	}
	return n
}

// begin begins a chapter, and records the existing Pods, so that tally can later compare the Pods.
func (w *world) begin(c chapter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.chapter, w.serving = c, w.ready()
	w.kept = map[types.UID]row{}
	for uid, r := range w.rows {
		if r.gone {
			delete(w.rows, uid)
			continue
		}
		r.how, r.why = "", ""
		w.kept[uid] = *r
	}
}

// shows reports whether the drawn Pods are the Pods in the API server, all Pods are ready, and no Pod is being deleted.
// The workload's status alone is not enough, because the status may be older than the last change.
func (w *world) shows(pods []corev1.Pod) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	there := 0
	for _, r := range w.rows {
		if !r.gone {
			there++
		}
	}
	for i := range pods {
		r := w.rows[pods[i].UID]
		if r == nil || r.gone || !r.ready || r.version != pods[i].ResourceVersion {
			return false
		}
	}
	return there == len(pods)
}

// tally compares the present Pods with the Pods at the beginning of the chapter. unavailable is the number of Pods that
// were ready at the beginning, minus the smallest number of ready Pods since then.
func (w *world) tally() (t tally, unavailable int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, after, gone, came := map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}
	served := 0
	for uid := range w.kept {
		was, now := w.kept[uid], w.rows[uid]
		before[was.place]++
		if was.ready {
			served++
		}
		switch {
		case now.gone:
			gone[was.place]++
		case now.node == was.node && now.ip == was.ip:
			t.kept++
			if now.revision != was.revision {
				t.updated++
			}
		}
	}
	for uid, r := range w.rows {
		if r.gone {
			continue
		}
		after[r.place]++
		if _, known := w.kept[uid]; !known {
			came[r.place]++
			t.created++
		}
	}
	for place, n := range gone {
		again := min(n, came[place])
		t.recreated, t.created, t.deleted = t.recreated+again, t.created-again, t.deleted+n-again
	}
	t.before, t.after = listed(before), listed(after)
	return t, served - w.serving
}

// listed returns the sorted places as a text. Empty places are left out.
func listed(places map[string]int) string {
	delete(places, "")
	return strings.Join(slices.SortedFunc(maps.Keys(places), natural), ",")
}

// natural compares texts so that 10 comes after 9, and web-10 after web-9.
func natural(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) }

// snapshot returns all rows, sorted by name.
func (w *world) snapshot() []row {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]row, 0, len(w.rows))
	for _, r := range w.rows {
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b row) int { return cmp.Or(natural(a.name, b.name), cmp.Compare(a.uid, b.uid)) })
	return out
}
