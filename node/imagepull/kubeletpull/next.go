package kubeletpull

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/node/imagepull"
	"github.com/workloadkit/workloadkit/reason"
)

// Observed is the state of a Node.
type Observed struct {
	// Node is the Node; required.
	Node *corev1.Node
	// Pods are the Pods with Options.Labels. Next ignores Pods of other owners and for other Nodes.
	Pods []*corev1.Pod
	// Events are events about the Pods, in any order. Events are used only to explain why an attempt took too long.
	Events []corev1.Event
}

// Step is the caller's next action.
type Step struct {
	// Reports are the reports to record now, in the order of the wants.
	Reports []imagepull.Report
	// Delete and Create are the Pods to delete and to create after the reports are recorded, sorted by name. The Pods
	// in Delete are Pods of Observed.
	Delete, Create []*corev1.Pod
	// Change are changed copies of Pods of Observed, to be patched before Pods are created or deleted. The annotation
	// Options.Annotation and spec.activeDeadlineSeconds may have changed. Change is empty without Options.Annotation.
	Change []*corev1.Pod
	// After is the time until Next must be called again even if no Pod changes; 0 for never.
	After time.Duration
	// Why explains why pulls wait or have failed.
	Why reason.List
}

// Next returns the next step for a Node. before are the recorded reports, from imagepull.Merge. Pulls begin in the
// order of wants. Without wants, all Pods are deleted.
func (p *Puller) Next(seen Observed, wants []imagepull.Want, before []imagepull.Report, now time.Time) Step {
	s := &pass{Puller: p, seen: &seen, now: now, pods: map[string]*corev1.Pod{}, held: map[imagepull.Reference][]*corev1.Pod{}, kept: map[string]bool{}}
	for _, pod := range seen.Pods {
		if p.isOwn(pod, seen.Node.Name) {
			s.pods[pod.Name] = pod
		}
	}
	if p.options.Annotation != "" {
		s.newest = map[imagepull.Reference]*corev1.Pod{}
		for i := range wants {
			s.newest[wants[i].Image] = p.newestOf(seen.Node.Name, seen.Pods, wants[i].Image)
		}
	}
	unsupported := Support(seen.Node, p.options.GateOn)
	decided := wants
	if unsupported != nil {
		decided = unkept(wants)
	}
	next := imagepull.Next(decided, before, s.observe(wants, before, unsupported), p.options.Bounds, now)
	s.step.Reports, s.step.After, s.step.Why = next.Reports, next.After, next.Why
	for i := range wants {
		s.settle(&wants[i], &next.Reports[i], unsupported == nil)
		s.record(&wants[i], before, &next.Reports[i])
	}
	for name, pod := range s.pods {
		if !s.kept[name] && pod.DeletionTimestamp == nil {
			s.step.Delete = append(s.step.Delete, pod)
		}
	}
	slices.SortFunc(s.step.Delete, byName)
	slices.SortFunc(s.step.Create, byName)
	return s.step
}

func byName(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) }

// unkept returns the wants without Policy.Keep, so that no further attempts follow after the last failure.
func unkept(wants []imagepull.Want) []imagepull.Want {
	out := slices.Clone(wants)
	for i := range out {
		out[i].Claims = slices.Clone(out[i].Claims)
		for j := range out[i].Claims {
			out[i].Claims[j].Policy.Keep = false
		}
	}
	return out
}

// pass is the state of a single call of Next.
type pass struct {
	*Puller

	seen *Observed
	now  time.Time
	// pods are the Puller's Pods by name. held are the Pods that have mounted an image, by image, the oldest Pod
	// first.
	pods map[string]*corev1.Pod
	held map[imagepull.Reference][]*corev1.Pod
	// kept are the names of Pods that must not be deleted. newest are the Pods with the last record about each image.
	kept   map[string]bool
	newest map[imagepull.Reference]*corev1.Pod
	step   Step
}

// observe translates Pods into an imagepull.Observed: an image mounted in a Pod is a stored image, and the Pod of an
// attempt is a pull.
func (s *pass) observe(wants []imagepull.Want, before []imagepull.Report, unsupported error) imagepull.Observed {
	out := imagepull.Observed{Listed: true}
	current := map[string]bool{}
	for i := range wants {
		if pull, name := s.pull(&wants[i], before, unsupported); name != "" {
			current[name] = true
			out.Pulls = append(out.Pulls, pull)
		}
	}
	for _, pod := range s.pods {
		_, image, _ := s.Holding(pod)
		switch at := s.look(pod); {
		case at.held && pod.DeletionTimestamp == nil:
			s.held[image] = append(s.held[image], pod)
		case !at.held && at.err == nil && !current[pod.Name] && !s.isHold(pod, before) && s.newest[image] != pod:
			out.Pulls = append(out.Pulls, imagepull.Pull{Image: image, Stopping: true})
		}
	}
	for image, pods := range s.held {
		slices.SortFunc(pods, func(a, b *corev1.Pod) int {
			return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), byName(a, b))
		})
		id := idOf(pods[len(pods)-1])
		out.Images = append(out.Images, imagepull.Image{ID: id, Tags: []string{image.Normal()}, Bytes: bytesOf(s.seen.Node, image)})
	}
	return out
}

// isHold reports whether a Pod was created only to keep a pulled image in use. Such a Pod pulls nothing.
func (s *pass) isHold(pod *corev1.Pod, before []imagepull.Report) bool {
	return slices.ContainsFunc(before, func(r imagepull.Report) bool { return pod.Name == s.name(s.seen.Node.Name, &r, toHold) })
}

// pull returns the attempt in progress for a Want and the name of the Pod; the name is empty without an attempt. If
// the Pod of a recorded attempt is missing, settle creates the Pod.
func (s *pass) pull(w *imagepull.Want, before []imagepull.Report, unsupported error) (imagepull.Pull, string) {
	out := imagepull.Pull{Image: w.Image, Round: w.Round}
	i := slices.IndexFunc(before, func(r imagepull.Report) bool { return r.Image == w.Image })
	isRecorded := i >= 0 && before[i].Round == w.Round && before[i].Phase == imagepull.Pulling
	name := ""
	if isRecorded {
		name = s.name(s.seen.Node.Name, &before[i], toPull)
	}
	pod := s.pods[name]
	if pod == nil {
		if unsupported != nil {
			out.Ended, out.Err = true, reason.Final(unsupported)
			return out, cmp.Or(name, w.Image.Normal())
		}
		return out, name
	}
	at := s.look(pod)
	switch isDeleted := pod.DeletionTimestamp != nil; {
	case at.held && !isDeleted:
		out.Ended, out.ID = true, idOf(pod)
	case at.err != nil && !isDeleted:
		out.Ended, out.Err = true, at.err
	case s.now.Sub(begun(pod)) >= limit(w.Policy()):
		detail := "no end of the attempt within " + limit(w.Policy()).String()
		out.Ended, out.Err = true, reason.Reason{Code: PullTimedOut, Detail: joined(detail, cmp.Or(at.awaits, warning(s.seen.Events, pod)))}
	}
	return out, name
}

// begun returns the earliest time at which the kubelet could begin to pull for a Pod: the creation of the Pod or, if
// later, the time when the scheduler bound the Pod to the Node.
func begun(pod *corev1.Pod) time.Time {
	at := pod.CreationTimestamp.Time
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue && c.LastTransitionTime.After(at) {
			at = c.LastTransitionTime.Time
		}
	}
	return at
}

// limit returns the time for an attempt, without the deadline, which package imagepull enforces.
func limit(policy imagepull.Policy) time.Duration {
	policy.Deadline = nil
	return policy.Limit(time.Time{}, time.Time{})
}

// settle records in kept the Pods that a Want still needs, and adds missing Pods to the Pods to create. All Pods that
// are not in kept are deleted later.
func (s *pass) settle(w *imagepull.Want, r *imagepull.Report, isSupported bool) {
	held := s.held[w.Image]
	keeps := w.Policy().Keep || s.options.Hold
	switch {
	case r.Phase == imagepull.Succeeded && keeps:
		s.hold(w, r, held, isSupported)
		return
	case r.Phase == imagepull.Pulling:
		s.need(w, r, toPull, isSupported)
	}
	if r.Phase == imagepull.Waiting || r.Phase == imagepull.Pulling || keeps {
		s.keep(held) // Pods of an earlier round stay until the present round succeeds
	}
}

// hold keeps exactly one Pod that uses a pulled image. A Pod with the pull policy Always is replaced, because the
// kubelet would pull the image again and again.
func (s *pass) hold(w *imagepull.Want, r *imagepull.Report, held []*corev1.Pod, isSupported bool) {
	if len(held) == 0 {
		return // no Pod uses the image any more, so package imagepull begins a new pull
	}
	last := held[len(held)-1]
	for _, u := range []use{toPull, toHold} {
		if i := slices.IndexFunc(held, func(pod *corev1.Pod) bool { return pod.Name == s.name(s.seen.Node.Name, r, u) }); i >= 0 {
			last = held[i]
		}
	}
	s.keep([]*corev1.Pod{last})
	if sourceOf(last).PullPolicy == corev1.PullAlways {
		s.need(w, r, toHold, isSupported)
	}
}

func (s *pass) keep(pods []*corev1.Pod) {
	for _, pod := range pods {
		s.kept[pod.Name] = true
	}
}

// need keeps or creates the Pod with the given use. A failed Pod with the use toHold is deleted first, because the
// new Pod has the same name.
func (s *pass) need(w *imagepull.Want, r *imagepull.Report, u use, isSupported bool) {
	name := s.name(s.seen.Node.Name, r, u)
	switch pod := s.pods[name]; {
	case pod == nil && isSupported:
		s.step.Create = append(s.step.Create, s.pod(s.seen.Node.Name, w, r, u))
	case pod != nil && (u == toPull || pod.Status.Phase != corev1.PodFailed):
		s.kept[name] = true
	}
}
