package sidecarcontrol

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/reason"
)

// edit is a change of a Pod: images, and the annotations of hot upgrades.
type edit struct {
	control     *Control
	set         *Set
	pod         *corev1.Pod
	unproven    []string
	images      map[string]string
	annotations map[string]string // the Pod's annotations after the change
}

func (c *Control) edit(s *Standing, set *Set) *edit {
	e := &edit{control: c, set: set, pod: s.Pod, unproven: s.unproven, images: map[string]string{}, annotations: maps.Clone(s.Pod.Annotations)}
	if e.annotations == nil {
		e.annotations = map[string]string{}
	}
	return e
}

// Upgrade returns the change that gives a Pod the set's images, in a single patch of the Pod. s is the result of Read
// for the Pod and the set. The error is NotRead if Read was not called with the same set or the Pod does not have the
// set's sidecars. Other errors are NotUpgradable and the other reasons in s.Blocked, inplaceupdate.ContainerEnded, and
// UnreadableRecord.
func (c *Control) Upgrade(s *Standing, set *Set, now time.Time) (podpatch.Change, error) {
	if err := s.isOf(set); err != nil {
		return podpatch.Change{}, err
	}
	if len(s.Blocked) > 0 {
		return podpatch.Change{}, s.Blocked
	}
	e := c.edit(s, set)
	for side := range set.all() {
		if side.upgraded && side.Hot == nil {
			e.give(side.Name, side.Image)
		}
	}
	for i := range s.pairs {
		if err := e.move(&s.pairs[i]); err != nil {
			return podpatch.Change{}, err
		}
	}
	if problems := set.patch(e.annotations, reason.ObjectOf("Pod", s.Pod)); len(problems) > 0 {
		return podpatch.Change{}, problems
	}
	if err := c.keys.recordIn(e.annotations, []*Set{set}, now); err != nil {
		return podpatch.Change{}, err
	}
	change, err := e.change(now)
	if s.IsAway() || !s.Ready {
		// The patch must fail if the Pod has changed. A Pod that was out of service may be in service again, and its
		// upgrade would then exceed MaxUnavailable.
		change.ResourceVersion = s.Pod.ResourceVersion
	}
	return change, err
}

// NotRead means that a Standing was read for another set, or for a Pod that does not have the set's sidecars.
const NotRead reason.Code = "NotRead"

// isOf returns an error unless the Standing was read for this version of the set and the Pod has its sidecars.
func (s *Standing) isOf(set *Set) error {
	if s != nil && set != nil && s.Injected && s.set != nil && s.set.Name() == set.Name() && s.set.Hash() == set.Hash() {
		return nil
	}
	why := reason.Reason{Code: NotRead, Detail: "nothing was read with Control.Read"}
	if s != nil && s.Pod != nil && set != nil {
		why.Object, why.Detail = reason.ObjectOf("Pod", s.Pod), "it was not found to have the sidecars of this version of the set "+set.Name()
	}
	return why
}

// Flip returns the change that finishes a hot upgrade: the containers that worked before the upgrade get the image of
// an idle container. Flip may be
// called only if s.Flip is true. The error is NotRead, as for Upgrade.
func (c *Control) Flip(s *Standing, set *Set, now time.Time) (podpatch.Change, error) {
	if err := s.isOf(set); err != nil {
		return podpatch.Change{}, err
	}
	e := c.edit(s, set)
	for i := range s.pairs {
		if p := &s.pairs[i]; p.isFlipping() {
			e.rest(p, 1-p.working)
		}
	}
	return e.change(now)
}

// give sets the new image of a container.
func (e *edit) give(container, image string) {
	for _, list := range [][]corev1.Container{e.pod.Spec.InitContainers, e.pod.Spec.Containers} {
		for i := range list {
			if list[i].Name == container && list[i].Image != image {
				e.images[container] = image
			}
		}
	}
}

// move upgrades one hot sidecar.
func (e *edit) move(p *pair) error {
	what, target := p.next()
	switch what {
	case start:
		keys, name, other := &e.control.keys.Hot, p.twins[target].name, p.twins[1-target].name
		before := e.annotations[keys.VersionPrefix+other]
		e.give(name, p.s.Image)
		e.annotations[keys.VersionPrefix+name] = e.set.spec.Version
		e.annotations[keys.VersionAltPrefix+name] = before
		e.annotations[keys.VersionAltPrefix+other] = e.set.spec.Version
		return e.work(p, target)
	case turnBack:
		e.rest(p, target)
		return e.work(p, 1-target)
	}
	return nil
}

// rest makes the twin with index idle an idle twin: the twin gets the empty image and the version "0".
func (e *edit) rest(p *pair, idle int) {
	keys := &e.control.keys.Hot
	e.give(p.twins[idle].name, p.s.Hot.EmptyImage)
	e.annotations[keys.VersionPrefix+p.twins[idle].name] = idleVersion
	e.annotations[keys.VersionAltPrefix+p.twins[1-idle].name] = idleVersion
}

// work records which twin is working.
func (e *edit) work(p *pair, works int) error {
	w, err := readWorking(e.annotations, &e.control.keys)
	if err != nil {
		return err
	}
	w[p.s.Name] = p.twins[works].name
	return w.into(e.annotations, &e.control.keys)
}

// change returns the patch that makes the changes of the edit. The patch also records, in an annotation, which images
// run now.
func (e *edit) change(now time.Time) (podpatch.Change, error) {
	change := podpatch.Change{UID: e.pod.UID, Annotations: map[string]*string{}}
	if len(e.images) > 0 {
		states, err := readRecords(e.annotations, e.control.keys.StateAnnotation)
		if err != nil {
			return change, err
		}
		view := e.control.viewOf(e.pod, states[e.set.spec.Name])
		if view == nil {
			view = e.pod.DeepCopy()
			delete(view.Annotations, e.control.keys.StateAnnotation)
		}
		begun, err := e.control.updater.Start(view, &inplaceupdate.Plan{Images: e.images},
			inplaceupdate.Target{Revision: e.set.spec.Hash, Labels: map[string]string{}, Unproven: e.unproven}, now)
		if err != nil {
			return change, err
		}
		change = e.control.inSet(begun, states, e.set)
		change.Images = begun.Images
	}
	for key, value := range e.annotations {
		if was, ok := e.pod.Annotations[key]; (!ok || was != value) && change.Annotations[key] == nil {
			change.Annotations[key] = &value
		}
	}
	if len(e.control.Injected(e.pod)) > 1 {
		change.ResourceVersion = e.pod.ResourceVersion // other sets write the same annotations
	}
	return change, nil
}
