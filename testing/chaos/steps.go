package chaos

import (
	"context"
	"fmt"
	"slices"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// step plays a random step, chosen by weight.
func (w *World) step() {
	w.steps++
	choices := []struct {
		weight int
		do     func()
	}{
		{40, w.release}, {24, w.startWork}, {24, w.deliver}, {26, w.nodeStep}, {7, w.users}, {3, w.tick}, {2, w.collect}, {1, w.rare}, {1, w.lull},
	}
	total := 0
	for _, c := range choices {
		total += c.weight
	}
	n := w.rng.IntN(total)
	for _, c := range choices {
		if n -= c.weight; n < 0 {
			c.do()
			break
		}
	}
	w.check()
}

func (w *World) check() {
	if w.subject.Check != nil {
		w.subject.Check()
	}
}

// anyProcess returns a random process.
func (w *World) anyProcess() *Process {
	if len(w.processes) == 1 {
		return w.processes[0]
	}
	return w.processes[w.rng.IntN(len(w.processes))]
}

// calls returns the API calls that wait for the schedule; starts returns the reconciles that wait to begin.
func (p *Process) calls() (out []*faultapi.Waiting) {
	for _, waiting := range p.turnstile.Waiting() {
		if waiting.Call.Verb != startVerb {
			out = append(out, waiting)
		}
	}
	return out
}

func (p *Process) starts() (out []*faultapi.Waiting) {
	for _, waiting := range p.turnstile.Waiting() {
		if waiting.Call.Verb == startVerb {
			out = append(out, waiting)
		}
	}
	return out
}

// release releases a random call of the controllers with a random outcome.
func (w *World) release() {
	p := w.anyProcess()
	waiting := p.calls()
	if len(waiting) == 0 {
		w.startWork()
		return
	}
	call := waiting[w.rng.IntN(len(waiting))]
	if !w.calm && w.Chance(1) {
		w.dieAt(p, call)
		return
	}
	w.let(p, call, w.fate(call.Call))
}

// fate returns a random outcome for a call.
func (w *World) fate(call faultapi.Call) faultapi.Fate {
	n := w.rng.IntN(100)
	switch {
	case w.calm:
	case n < 3:
		return serverError()
	case n < 5:
		return throttled()
	case n < 6 && !call.IsRead():
		return conflict(call)
	case n < 7 && !call.IsRead():
		return faultapi.Fate{Before: apierrors.NewForbidden(call.Resource, call.Name, fmt.Errorf("injected"))}
	case n < 8 && !call.IsRead():
		// The error names a field, because an invalid error without a field can mean a failed test operation of a
		// JSON patch.
		kind := schema.GroupKind{Group: call.Resource.Group, Kind: call.Resource.Resource}
		return faultapi.Fate{Before: apierrors.NewInvalid(kind, call.Name, field.ErrorList{field.Forbidden(field.NewPath("spec"), "injected")})}
	case n >= 8 && n < 11:
		return answerLost()
	}
	return faultapi.Fate{}
}

// passingError returns a random temporary error, after which the next attempt may succeed.
func (w *World) passingError(call faultapi.Call) faultapi.Fate {
	switch n := w.rng.IntN(4); {
	case n == 0:
		return throttled()
	case n == 1 && !call.IsRead():
		return conflict(call)
	case n == 2:
		return answerLost()
	}
	return serverError()
}

// conflict returns the error for a write to an object that has changed since it was read. For a creation, the
// conflict comes from the quota admission plugin: other requests change the same ResourceQuota.
func conflict(call faultapi.Call) faultapi.Fate {
	if call.Verb == "create" && call.Subresource == "" {
		return faultapi.Fate{Before: apierrors.NewConflict(schema.GroupResource{Resource: "resourcequotas"}, "quota", fmt.Errorf("injected"))}
	}
	return faultapi.Fate{Before: apierrors.NewConflict(call.Resource, call.Name, fmt.Errorf("injected"))}
}

func serverError() faultapi.Fate {
	return faultapi.Fate{Before: apierrors.NewInternalError(fmt.Errorf("injected"))}
}

func throttled() faultapi.Fate {
	return faultapi.Fate{Before: apierrors.NewTooManyRequests("injected", 1)}
}

func answerLost() faultapi.Fate {
	return faultapi.Fate{After: apierrors.NewTimeoutError("injected: the answer was lost", 1)}
}

// dieAt ends the process during a call. By chance, the call was carried out or not.
func (w *World) dieAt(p *Process, waiting *faultapi.Waiting) {
	if w.Chance(50) {
		call := waiting.Call
		w.Logf("%scall %s (and the process dies)", p.label(), call)
		t, before, version := p.Task(call.Task), w.Server.Target(call), w.Server.Version()
		waiting.Release(faultapi.Fate{Before: w.admit(p, t, call, before), After: context.Canceled})
		p.turnstile.Break(context.Canceled)
		w.wait()
		w.judge(t, call, before, version)
	}
	w.crash(p.index, "at a call")
}

// let releases a call and checks its effect.
func (w *World) let(p *Process, waiting *faultapi.Waiting, fate faultapi.Fate) {
	call := waiting.Call
	t, before := p.Task(call.Task), w.Server.Target(call)
	if fate.Before == nil {
		fate.Before = w.admit(p, t, call, before)
	}
	switch {
	case fate.Before != nil:
		w.Logf("%scall %s REFUSED %v", p.label(), call, fate.Before)
	case fate.After != nil:
		w.Logf("%scall %s ANSWER LOST", p.label(), call)
	default:
		w.Logf("%scall %s", p.label(), call)
	}
	if t != nil {
		w.look(t, &call)
		if w.idle && t.Controller != "" {
			w.asked = append(w.asked, asked{t.Controller, call})
		}
	}
	w.requests++
	if !call.IsRead() {
		w.writes++
	}
	version, effectless := w.Server.Version(), w.Server.Effectless()
	waiting.Release(fate)
	w.harvest()
	if fate == (faultapi.Fate{}) && !call.IsRead() && t != nil && t.Controller != "" {
		w.checkRepeated(t, &call, w.Server.Effectless() > effectless)
	}
	if fate.Before == nil {
		w.judge(t, call, before, version)
	}
}

// checkRepeated fails the schedule if a reconcile has received the response to a write and sends the same write again
// without effect.
func (w *World) checkRepeated(t *Task, call *faultapi.Call, effectless bool) {
	text := call.String()
	if effectless && t.sent[text] {
		w.Failf("repeated", "controller %s sends the same write twice in a pass: %s", t.Controller, text)
	}
	if t.sent == nil {
		t.sent = map[string]bool{}
	}
	t.sent[text] = true
}

func (w *World) look(t *Task, call *faultapi.Call) {
	if w.subject.Looks != nil && t.Controller != "" {
		w.subject.Looks(t, call)
	}
}

// judge calls Subject.Wrote for a write that has changed an object.
func (w *World) judge(t *Task, call faultapi.Call, before client.Object, version int64) {
	if call.IsRead() || w.Server.Version() == version || w.subject.Wrote == nil {
		return
	}
	after := w.Server.Target(call)
	if call.Verb == "create" && call.Name == "" {
		after = w.Server.Newest(call.Resource)
	}
	w.subject.Wrote(&Write{Task: t, Call: call, Before: before, After: after})
}

// startWork begins a reconcile.
func (w *World) startWork() {
	p := w.anyProcess()
	due := p.starts()
	if len(due) == 0 {
		w.deliver()
		return
	}
	w.begin(p, due[w.rng.IntN(len(due))])
}

func (w *World) begin(p *Process, waiting *faultapi.Waiting) {
	call := waiting.Call
	t := &Task{
		Name: call.Task, Controller: call.Resource.Resource, Process: p, Began: time.Now(),
		Object: types.NamespacedName{Namespace: call.Namespace, Name: call.Name},
	}
	w.Logf("%s%s begins", p.label(), t.Name)
	p.begin(t)
	w.look(t, nil)
	waiting.Release(faultapi.Fate{})
	w.harvest()
}

// news describes a cache's resource, or a watch, with undelivered events.
type news struct {
	what    string
	behind  int
	deliver func(n int)
}

// news returns the resources and watches of a process that have undelivered events.
func (p *Process) news() (out []news) {
	for _, resource := range p.Cache.Resources() {
		if n := p.Cache.Behind(resource); n > 0 {
			out = append(out, news{"the cache of " + resource + " shows", n, func(n int) { p.Cache.Deliver(resource, n) }})
		}
	}
	for _, watch := range p.live.Watches() {
		if n := watch.Behind(); n > 0 {
			out = append(out, news{"a " + watch.String() + " shows", n, func(n int) { deliver(watch, n) }})
		}
	}
	return out
}

// deliver delivers a watch's events one by one: otherwise the number of events that the reader of the watch receives
// at once would depend on the timing of goroutines.
func deliver(watch *faultapi.Watch, n int) {
	for range min(n, watch.Behind()) {
		watch.Deliver(1)
		synctest.Wait()
	}
}

func (w *World) deliver() {
	p := w.anyProcess()
	if all := p.news(); len(all) > 0 {
		one, n := all[w.rng.IntN(len(all))], 1+w.rng.IntN(6)
		w.Logf("%s%s: %d of %d events", p.label(), one.what, min(n, one.behind), one.behind)
		one.deliver(n)
		w.harvest()
		return
	}
	switch n := w.rng.IntN(10); { // nothing is pending, so users or nodes must do something
	case n < 2:
		w.bookmark(p)
	case n < 5:
		w.users()
	default:
		w.nodeStep()
	}
}

// bookmark delivers a watch bookmark to a process: a new process may wait for a bookmark before the process considers
// its store complete.
func (w *World) bookmark(p *Process) {
	for _, resource := range p.Cache.Resources() {
		p.Cache.Bookmark(resource)
	}
	w.Logf("%sbookmarks", p.label())
}

// LoseState removes some or all of the given annotations from a Pod, as a user might. The Pod is a random unready
// Pod, or any Pod that has one of the keys. Sometimes LoseState writes other values instead, for example from an
// older version of the Pod.
func (w *World) LoseState(keys ...string) {
	var pods, unready []*corev1.Pod
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		if !slices.ContainsFunc(keys, func(key string) bool { return pod.Annotations[key] != "" }) {
			continue
		}
		if pods = append(pods, pod); !podstate.IsReady(pod) {
			unready = append(unready, pod)
		}
	}
	if len(unready) > 0 && w.Chance(80) {
		pods = unready
	}
	if len(pods) == 0 {
		return
	}
	pod := pods[w.rng.IntN(len(pods))]
	changed := pod.DeepCopy()
	switch n := w.rng.IntN(4); {
	case n == 0:
		changed.Annotations = nil
	case n == 1 && changed.Annotations[keys[0]] != "":
		changed.Annotations[keys[0]] = "{}"
	default:
		for _, key := range keys {
			if w.Chance(70) {
				delete(changed.Annotations, key)
			}
		}
	}
	if len(changed.Annotations) == len(pod.Annotations) && changed.Annotations[keys[0]] == pod.Annotations[keys[0]] {
		return
	}
	w.Logf("user: annotations of Pod %s are lost", pod.Name)
	if err := w.User.Update(context.Background(), changed); err != nil {
		w.Failf("story", "annotations of Pod %s: %v", pod.Name, err)
	}
}

// AnyPod returns a random Pod, or nil if there are no Pods. The Pod belongs to the server, so do not modify the Pod.
func (w *World) AnyPod() *corev1.Pod {
	pods := faultapi.All[*corev1.Pod](w.Server)
	if len(pods) == 0 {
		return nil
	}
	return pods[w.rng.IntN(len(pods))]
}

// nodeStep lets the scheduler or a kubelet do some work for a random Pod.
func (w *World) nodeStep() {
	pod := w.AnyPod()
	if pod == nil {
		return
	}
	if w.Nodes.Schedule(pod, fmt.Sprintf("node-%d", w.rng.IntN(3))) {
		w.Logf("node: schedule %s", pod.Name)
		return
	}
	running := runningContainers(pod)
	name := running[w.rng.IntN(len(running))]
	n := w.rng.IntN(100)
	if w.calm && n >= 90 && n < 96 {
		n = 0 // container crashes and similar events are faults, so they are skipped
	}
	switch {
	case n < 35: // the kubelet does its normal work
		w.syncPod(pod)
	case n < 50:
		w.Logf("node: observe %s, news %v", pod.Name, w.Nodes.Observe(client.ObjectKeyFromObject(pod), pod.UID))
	case n < 60:
		w.Logf("node: run %s, changed %v", pod.Name, w.Nodes.Run(pod.UID))
	case n < 75:
		w.Logf("node: %s/%s ready, changed %v", pod.Name, name, w.Nodes.SetReady(pod.UID, name, true))
	case n < 78:
		w.Logf("node: acknowledge %s, changed %v", pod.Name, w.Nodes.Acknowledge(pod.UID))
	case n < 90:
		w.Logf("node: report %s, changed %v", pod.Name, w.Nodes.Report(pod.UID))
	case n < 93:
		w.Logf("node: %s/%s unready, changed %v", pod.Name, name, w.Nodes.SetReady(pod.UID, name, false))
	case n < 95:
		w.Logf("node: crash %s/%s, changed %v", pod.Name, name, w.Nodes.Crash(pod.UID, name))
	case n < 96:
		w.Logf("node: evict %s, changed %v", pod.Name, w.Nodes.Evict(pod.UID))
	default:
		w.Logf("node: terminate %s, changed %v", pod.Name, w.Nodes.Terminate(pod.UID))
	}
}

// syncPod does all of a kubelet's work for a Pod at once.
func (w *World) syncPod(pod *corev1.Pod) {
	w.Nodes.Observe(client.ObjectKeyFromObject(pod), pod.UID)
	if w.Nodes.Run(pod.UID) && w.Chance(25) {
		w.Logf("node: run %s, report later", pod.Name)
		return
	}
	if w.Chance(70) {
		for _, name := range runningContainers(pod) {
			w.Nodes.SetReady(pod.UID, name, true)
		}
	}
	w.Logf("node: sync %s, changed %v", pod.Name, w.Nodes.Report(pod.UID))
	w.Nodes.Terminate(pod.UID)
}

// runningContainers returns the names of the containers that run as long as their Pod.
func runningContainers(pod *corev1.Pod) (names []string) {
	for i := range pod.Spec.Containers {
		names = append(names, pod.Spec.Containers[i].Name)
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; podstate.IsNativeSidecar(c) {
			names = append(names, c.Name)
		}
	}
	return names
}

func (w *World) users() {
	w.forgive()
	if w.subject.Users != nil {
		w.subject.Users()
	}
}

func (w *World) tick() {
	for _, d := range []time.Duration{20 * time.Millisecond, time.Second, 3 * time.Second, 10 * time.Second} {
		if w.Chance(40) || d == 10*time.Second {
			w.Logf("time passes: %v", d)
			w.Sleep(d)
			return
		}
	}
}

func (w *World) collect() { w.Logf("garbage collected: %v", w.Server.CollectGarbage()) }

func (w *World) rare() {
	p := w.anyProcess()
	resources := p.Cache.Resources()
	resource := resources[w.rng.IntN(len(resources))]
	switch n := w.rng.IntN(5); {
	case n < 2 && !w.calm:
		w.crash(p.index, "out of the blue")
	case n < 4:
		w.Logf("%sbookmark %s: %v", p.label(), resource, p.Cache.Bookmark(resource))
	default:
		if watches := p.live.Watches(); len(watches) > 0 && !w.calm {
			watch, expired := watches[w.rng.IntN(len(watches))], w.Chance(50)
			w.Logf("%sa %s breaks, its version too old: %v", p.label(), watch, expired)
			watch.Break(expired)
		} else {
			w.Logf("%sa watch of %s breaks, and a new list comes", p.label(), resource)
			p.Cache.Relist(resource)
		}
		w.harvest()
	}
}
