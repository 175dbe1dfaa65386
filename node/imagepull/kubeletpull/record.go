package kubeletpull

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/node/imagepull"
)

// record is a report in the form stored in the annotation Options.Annotation of a Pod.
type record struct {
	// Node and Image are the wanted Node and image. A webhook may have changed the Pod's affinity and volume.
	Node  string `json:"node,omitempty"`
	Image string `json:"image,omitempty"`
	// Serial grows with each Pod for an image on a Node.
	Serial int `json:"serial"`
	// Since is when the claim was made.
	Since    time.Time       `json:"since"`
	Round    int64           `json:"round,omitempty"`
	Phase    imagepull.Phase `json:"phase"`
	Attempts int             `json:"attempts,omitempty"`
	Losses   int             `json:"losses,omitempty"`
	Started  time.Time       `json:"started,omitzero"`
	Ended    time.Time       `json:"ended,omitzero"`
	Again    time.Time       `json:"again,omitzero"`
	Message  string          `json:"message,omitempty"`
	Answers  []answer        `json:"answers,omitempty"`
}

// answer is an imagepull.Answer in the form for JSON.
type answer struct {
	Round   int64           `json:"round,omitempty"`
	Phase   imagepull.Phase `json:"phase"`
	Ended   time.Time       `json:"ended,omitzero"`
	Message string          `json:"message,omitempty"`
}

// longestRecord is the largest length of an annotation; a longer annotation is ignored.
const longestRecord = 4096

// recordOf reads the record in a Pod. A Pod without a readable record counts as the first attempt.
func (p *Puller) recordOf(pod *corev1.Pod) record {
	created := pod.CreationTimestamp.Time
	text, out := pod.Annotations[p.options.Annotation], record{}
	if len(text) > longestRecord || json.Unmarshal([]byte(text), &out) != nil || out.Phase == "" {
		return record{Since: created, Phase: imagepull.Pulling, Attempts: 1, Started: created}
	}
	return out
}

func recordFrom(node string, r *imagepull.Report, serial int, since time.Time) record {
	out := record{
		Node: node, Image: r.Image.Normal(), Serial: serial, Since: since, Round: r.Round, Phase: r.Phase, Attempts: r.Attempts, Losses: r.Losses,
		Started: r.Started, Ended: r.Ended, Again: r.Again, Message: r.Message,
	}
	for _, a := range r.Answers {
		out.Answers = append(out.Answers, answer(a))
	}
	return out
}

func (r *record) report(image imagepull.Reference) imagepull.Report {
	out := imagepull.Report{
		Image: image, Round: r.Round, Phase: r.Phase, Attempts: r.Attempts, Losses: r.Losses,
		Started: r.Started, Ended: r.Ended, Again: r.Again, Message: r.Message,
	}
	for _, a := range r.Answers {
		out.Answers = append(out.Answers, imagepull.Answer(a))
	}
	return out
}

// newestOf returns the Pod with the last record about an image on a Node; nil if there is none.
func (p *Puller) newestOf(node string, pods []*corev1.Pod, image imagepull.Reference) (newest *corev1.Pod) {
	for _, pod := range pods {
		if _, of, _ := p.Holding(pod); of != image || !p.isOwn(pod, node) {
			continue
		}
		if newest == nil || cmp.Or(
			cmp.Compare(p.recordOf(pod).Serial, p.recordOf(newest).Serial),
			pod.CreationTimestamp.Compare(newest.CreationTimestamp.Time), cmp.Compare(pod.Name, newest.Name),
		) > 0 {
			newest = pod
		}
	}
	return newest
}

// Recorded returns the report about an image on a Node that the Pods contain in Options.Annotation. since is the time
// of the claim. found is false if no Pod exists: then the image is not claimed, or the claim was released. An image
// counts as pulled even if the Pod has ended after the pull. If a user edits the annotation of a Pod, only the result
// for the Pod's own Node can become wrong.
func (p *Puller) Recorded(seen Observed, image imagepull.Reference, now time.Time) (report imagepull.Report, since time.Time, found bool) {
	newest := p.newestOf(seen.Node.Name, seen.Pods, image)
	if newest == nil {
		return imagepull.Report{}, time.Time{}, false
	}
	r := p.recordOf(newest)
	// A record with zero attempts says that the image has disappeared after this Pod had pulled the image. The start
	// of the Pod's container then does not show a new pull.
	if at := ranAt(newest); !at.IsZero() && p.changed(newest) == nil && r.Phase != imagepull.Succeeded && r.Attempts > 0 {
		r.Phase, r.Ended, r.Again, r.Message = imagepull.Succeeded, at, time.Time{}, ""
	}
	// Merge limits all values, because users may have edited the annotation.
	merged, _ := imagepull.Merge([]imagepull.Want{{Image: image, Round: max(r.Round, 0)}}, nil, []imagepull.Report{r.report(image)}, now)
	if len(merged) == 0 {
		first := record{Phase: imagepull.Pulling, Attempts: 1, Started: newest.CreationTimestamp.Time}
		return first.report(image), newest.CreationTimestamp.Time, true
	}
	return merged[0], r.Since, true
}

// ranAt returns the time when the pause container has started, which is a time after the pull. The zero time means
// that the container has not started, or that the kubelet has not reported the time.
func ranAt(pod *corev1.Pod) time.Time {
	for i := range pod.Status.ContainerStatuses {
		c := &pod.Status.ContainerStatuses[i]
		switch {
		case c.Name != holder:
		case c.LastTerminationState.Terminated != nil && !c.LastTerminationState.Terminated.StartedAt.IsZero():
			return c.LastTerminationState.Terminated.StartedAt.Time
		case c.State.Running != nil && !c.State.Running.StartedAt.IsZero():
			return c.State.Running.StartedAt.Time
		case c.State.Terminated != nil && !c.State.Terminated.StartedAt.IsZero():
			return c.State.Terminated.StartedAt.Time
		}
	}
	return time.Time{}
}

// record writes the report of a Want into the Pod to be created. Without such a Pod, record writes the report into
// the last Pod if the report has changed. The last Pod stays until the cache shows another Pod with a later record.
func (s *pass) record(w *imagepull.Want, before []imagepull.Report, r *imagepull.Report) {
	if s.options.Annotation == "" {
		return
	}
	newest, serial, since := s.newest[w.Image], 0, s.now
	if newest != nil {
		s.kept[newest.Name] = true
		last := s.recordOf(newest)
		serial, since = last.Serial, last.Since
	}
	for _, pod := range s.step.Create {
		if of, _ := imageOf(pod); of == w.Image { // the Pod has no record yet
			s.write(pod, recordFrom(s.seen.Node.Name, r, serial+1, since))
			return
		}
	}
	if newest == nil || newest.DeletionTimestamp != nil || isKnown(before, r) {
		return
	}
	changed := newest.DeepCopy()
	s.write(changed, recordFrom(s.seen.Node.Name, r, serial, since))
	if r.Phase == imagepull.Failed && changed.Spec.ActiveDeadlineSeconds == nil {
		changed.Spec.ActiveDeadlineSeconds = ptr.To(int64(1)) // otherwise the kubelet would try again and again
	}
	s.step.Change = append(s.step.Change, changed)
}

func (s *pass) write(pod *corev1.Pod, r record) {
	text, err := json.Marshal(r)
	if err != nil {
		return // a time after the year 9999 has no JSON form
	}
	annotations := map[string]string{s.options.Annotation: string(text)}
	for key, value := range pod.Annotations {
		if key != s.options.Annotation {
			annotations[key] = value
		}
	}
	pod.Annotations = annotations
}

// isKnown reports whether a report needs no write, because the Pods already contain the report. A success needs no
// write, because the Pod's status shows the end of the pull.
func isKnown(before []imagepull.Report, r *imagepull.Report) bool {
	for i := range before {
		b := &before[i]
		if b.Image != r.Image {
			continue
		}
		return r.Phase == imagepull.Succeeded || b.Phase == r.Phase && b.Round == r.Round && b.Attempts == r.Attempts && b.Losses == r.Losses && b.Again.Equal(r.Again) &&
			slices.EqualFunc(b.Answers, r.Answers, func(x, y imagepull.Answer) bool {
				return x.Round == y.Round && x.Phase == y.Phase && x.Ended.Equal(y.Ended)
			})
	}
	return false
}
