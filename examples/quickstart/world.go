package main

import (
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

// row is one Pod as the table shows it.
type row struct {
	name, revision, node, ip string
	uid                      types.UID
	restarts                 int32
	ready, gone              bool
	how, why                 string
}

// chapter says what the current part of the show does to Pods.
type chapter struct {
	why string // the reason for recreating, empty when the change can be made in place
}

// world is every Pod seen so far.
type world struct {
	mu      sync.Mutex
	rows    map[types.UID]*row
	started bool // after the first creation: from then on new Pods are replacements
	chapter chapter
	kept    map[types.UID]row // as the chapter began
	happens func(string)      // told of everything worth a line
}

func newWorld() *world {
	return &world{rows: map[types.UID]*row{}, happens: func(string) {}}
}

func (w *world) observe(event watch.EventType, pod *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.rows[pod.UID]
	if r == nil {
		r = &row{name: pod.Name, uid: pod.UID}
		if w.started {
			r.how, r.why = "created", "replaces a Pod of the old revision"
			w.happens(pod.Name + " created at revision " + revision.ShortName(pod.Labels[apps.LabelRevision]))
		}
		w.rows[pod.UID] = r
	}
	if event == watch.Deleted || pod.DeletionTimestamp != nil {
		if !r.gone && w.started {
			r.how, r.why = "recreated", w.chapter.why
			w.happens(pod.Name + " deleted to be recreated: " + w.chapter.why)
		}
		r.gone, r.ready = true, false
		return
	}
	name := revision.ShortName(pod.Labels[apps.LabelRevision])
	if r.revision != "" && r.revision != name {
		r.how, r.why = "in place", "only images differ: every other field stays"
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

// begin starts a chapter: what Pods are compared with from now on.
func (w *world) begin(c chapter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.chapter, w.started = c, true
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

// tally compares with the beginning of the chapter: Pods that kept UID, node and IP, and Pods that are gone.
func (w *world) tally() (kept, recreated, updated int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for uid, before := range w.kept {
		now := w.rows[uid]
		switch {
		case now == nil || now.gone:
			recreated++
		case now.node == before.node && now.ip == before.ip:
			kept++
			if now.revision != before.revision {
				updated++
			}
		}
	}
	return kept, recreated, updated
}

// snapshot returns the rows by name.
func (w *world) snapshot() []row {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]row, 0, len(w.rows))
	for _, r := range w.rows {
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b row) int { return strings.Compare(a.name, b.name) })
	return out
}
