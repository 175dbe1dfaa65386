package sidecarcontrol

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// These are reasons why the creation of a Pod is refused.
const (
	// PinnedSetMissing means that a Pod is pinned to a version of a set that does not exist.
	PinnedSetMissing reason.Code = "PinnedSetMissing"
	// SetsConflict means that two sets inject a container of the same name, or different volumes of the same name.
	SetsConflict reason.Code = "SetsConflict"
	// NameTaken means that the Pod has an init container with the name of an ordinary sidecar, or a container with the
	// name of an init container of the set.
	NameTaken reason.Code = "NameTaken"
	// UnreadableRecord means that an annotation of the package on a Pod cannot be parsed.
	UnreadableRecord reason.Code = "UnreadableRecord"
	// InvalidPatch means that an annotation cannot be merged, because the old or the new value is not valid JSON.
	InvalidPatch reason.Code = "InvalidPatch"
)

// Facts are further inputs of an injection.
type Facts struct {
	// Now is the time that the annotations record, in whole seconds.
	Now time.Time
	// Seed decides, together with the set's name, which version of a pinned set the Pod gets. Use a different seed for
	// each Pod.
	Seed uint64
}

// Inject puts the sidecars of the sets into a Pod that is being created, and returns the injected sets, sorted by name.
// sets are the sets that match the Pod, as returned by Index.Match, in any order. Inject does nothing to a Pod that has
// ended or is being deleted.
//
// If a container of the Pod has the name of a sidecar, Inject replaces this container, so a second injection changes
// nothing. The Pod gets all sidecars or none: if an error is returned, the Pod is unchanged. The error is a reason.List
// with the codes above, NoTargetContainer or InvalidExpression. InvalidConfig and InvalidSet mean that the Control or a
// set was not made with its constructor.
//
// Inject gives the Pod new slices and does not write to old slices. The injected containers share memory with the
// sets: later code may replace pointers, slices and maps in the Pod's containers and volumes, but must not modify the
// values behind them.
func (c *Control) Inject(pod *corev1.Pod, sets []*Set, facts Facts) ([]*Set, error) {
	if c.updater == nil {
		return nil, reason.List{{Code: InvalidConfig, Detail: "the Control was not made with New"}}
	}
	if !podstate.IsActive(pod) {
		return nil, nil
	}
	chosen, err := choose(pod, sets, facts.Seed)
	if len(chosen) == 0 || err != nil {
		return nil, err
	}
	d := newDraft(c, pod, chosen)
	for _, set := range chosen {
		d.add(set)
	}
	d.fit()
	d.record(facts.Now)
	if len(d.problems) > 0 {
		return nil, d.problems
	}
	d.apply()
	return chosen, nil
}

// choose returns the version of each set that the Pod gets, sorted by name. Two sets of the same name count as a single
// set.
func choose(pod *corev1.Pod, sets []*Set, seed uint64) ([]*Set, error) {
	var chosen []*Set
	var problems reason.List
	for _, set := range sets {
		if set == nil || set.selector == nil {
			return nil, reason.List{{Code: InvalidSet, Object: reason.Object{Kind: "set"}, Detail: "it was not made with NewSet"}}
		}
		if set.spec.Paused {
			continue
		}
		version := set.versionFor(pod, seed)
		if version == nil {
			problems = append(problems, reason.Reason{
				Code: PinnedSetMissing, Object: reason.Object{Kind: "set", Name: set.spec.Name}, Detail: "the pinned version of it does not exist",
				Remedy: "name another version, or none",
			})
			continue
		}
		chosen = append(chosen, version)
	}
	if len(problems) > 0 {
		return nil, problems
	}
	slices.SortFunc(chosen, func(a, b *Set) int { return strings.Compare(a.spec.Name, b.spec.Name) })
	chosen = slices.CompactFunc(chosen, func(a, b *Set) bool { return a.spec.Name == b.spec.Name })
	return slices.DeleteFunc(chosen, func(set *Set) bool {
		return slices.ContainsFunc(sets, func(other *Set) bool {
			return !other.spec.Paused && other.spec.Replaces == set.spec.Name && other.spec.Name != set.spec.Name
		})
	}), nil
}

// versionFor returns the version of the set that a Pod gets, nil if this version does not exist.
func (s *Set) versionFor(pod *corev1.Pod, seed uint64) *Set {
	pin := s.spec.Pin
	if pin == nil {
		return s
	}
	if pin.selector.Matches(labels.Set(pod.Labels)) && draw(seed, s.spec.Name) >= pin.Share {
		return s
	}
	return pin.Set
}

// draw returns a number from 0 to 1. The number depends only on the seed and the set's name.
func draw(seed uint64, name string) float64 {
	h := sha256.Sum256(strconv.AppendUint([]byte(name+"/"), seed, 10))
	const bits = 53 // the number of bits of a float64's fraction
	return float64(binary.BigEndian.Uint64(h[:])>>(64-bits)) / (1 << bits)
}

// draft is the Pod as it will be after the injection.
type draft struct {
	control *Control
	pod     *corev1.Pod
	sets    []*Set

	// own lists the Pod's own containers, which no set has injected. Sidecars copy mounts, devices and env from these
	// containers.
	own         []*corev1.Container
	injected    map[string]*Set // set by container name
	volumes     map[string]*Set // set by name of the added volume
	annotations map[string]string

	init, containers placement
	addVolumes       []corev1.Volume
	addSecrets       []corev1.LocalObjectReference
	hot              map[string]string // name of the working container by hot sidecar

	problems reason.List
}

func newDraft(c *Control, pod *corev1.Pod, sets []*Set) *draft {
	d := &draft{control: c, pod: pod, sets: sets, injected: map[string]*Set{}, annotations: maps.Clone(pod.Annotations)}
	if d.annotations == nil {
		d.annotations = map[string]string{}
	}
	for _, set := range sets {
		for side := range set.all() {
			for _, name := range side.injectedNames() {
				d.claim(set, name)
			}
		}
	}
	for i := range pod.Spec.Containers {
		if own := &pod.Spec.Containers[i]; d.injected[own.Name] == nil && !c.isMarked(own) {
			d.own = append(d.own, own)
		}
	}
	d.init.of, d.containers.of = pod.Spec.InitContainers, pod.Spec.Containers
	return d
}

// claim records that a container of the given name belongs to the set.
func (d *draft) claim(set *Set, name string) {
	if other := d.injected[name]; other != nil && other != set {
		d.refuse(SetsConflict, "spec.containers["+name+"]", "the sets "+other.spec.Name+" and "+set.spec.Name+" both inject a container of this name")
	}
	d.injected[name] = set
}

// podObject returns the Object of a Pod for reasons. A new Pod may have no name yet.
func podObject(pod *corev1.Pod) reason.Object {
	about := reason.ObjectOf("Pod", pod)
	if about.Name == "" && pod.GenerateName != "" {
		about.Name = pod.GenerateName + "*"
	}
	return about
}

func (d *draft) refuse(code reason.Code, path, detail string) {
	d.problems = append(d.problems, reason.Reason{Code: code, Object: podObject(d.pod), Path: path, Detail: detail})
}

// Replaced returns the paths of the Pod's own containers, such as spec.initContainers[setup], that an injection has
// replaced by sidecars of the same name. before and after are the Pod before and after the injection. Replaced leaves
// out containers that were sidecars already in before, as in a Pod created from another Pod's manifest.
func (c *Control) Replaced(before, after *corev1.Pod) (paths []string) {
	for _, list := range []struct {
		path          string
		before, after []corev1.Container
	}{
		{"spec.initContainers", before.Spec.InitContainers, after.Spec.InitContainers},
		{"spec.containers", before.Spec.Containers, after.Spec.Containers},
	} {
		for i := range list.after {
			container := &list.after[i]
			own := slices.IndexFunc(list.before, func(b corev1.Container) bool { return b.Name == container.Name })
			if own >= 0 && !c.isMarked(&list.before[own]) && c.isMarked(container) {
				paths = append(paths, list.path+"["+container.Name+"]")
			}
		}
	}
	return paths
}

// isMarked reports whether a container was injected, by its env variable Keys.InjectedEnv.
func (c *Control) isMarked(container *corev1.Container) bool {
	return slices.ContainsFunc(container.Env, func(e corev1.EnvVar) bool { return e.Name == c.keys.InjectedEnv && e.Value == marked })
}

// marked is the value of the env variable Keys.InjectedEnv.
const marked = "true"

// add adds the sidecars of a set to the draft.
func (d *draft) add(set *Set) {
	d.problems = append(d.problems, set.patch(d.annotations, podObject(d.pod))...)
	for i := range set.init {
		d.place(&d.init, d.containers.of, set, &set.init[i])
	}
	for i := range set.containers {
		d.place(&d.containers, d.init.of, set, &set.containers[i])
	}
	d.mount(set)
	for _, secret := range set.spec.ImagePullSecrets {
		if !slices.Contains(d.pod.Spec.ImagePullSecrets, secret) && !slices.Contains(d.addSecrets, secret) {
			d.addSecrets = append(d.addSecrets, secret)
		}
	}
}

// place builds the containers of a sidecar, two for a hot upgrade and otherwise one, and adds each to the containers in
// into. No container in others may have the same name.
func (d *draft) place(into *placement, others []corev1.Container, set *Set, s *sidecar) {
	for i, name := range s.injectedNames() {
		if slices.ContainsFunc(others, func(other corev1.Container) bool { return other.Name == name }) {
			d.refuse(NameTaken, "spec.containers["+name+"]", "the set "+set.spec.Name+" injects a container of this name, at "+s.path)
		}
		into.add(d.build(set, s, i, name), s.AfterApp)
	}
}

// mount adds the volumes of the set that the set's sidecars mount. If the Pod has a volume of the same name already,
// mount does not change the Pod's volume.
func (d *draft) mount(set *Set) {
	for i := range set.spec.Volumes {
		volume := &set.spec.Volumes[i]
		if !set.mounts(volume.Name) {
			continue
		}
		if other := d.volumes[volume.Name]; other != nil {
			if !other.hasVolume(volume) {
				d.refuse(SetsConflict, "spec.volumes["+volume.Name+"]", "the sets "+other.spec.Name+" and "+set.spec.Name+" have different volumes of this name")
			}
			continue
		}
		if !slices.ContainsFunc(d.pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == volume.Name }) {
			d.addVolumes = append(d.addVolumes, *volume)
			if d.volumes == nil {
				d.volumes = map[string]*Set{}
			}
			d.volumes[volume.Name] = set
		}
	}
}

// apply writes the draft into the Pod.
func (d *draft) apply() {
	spec := &d.pod.Spec
	d.init.sortAdded() // init containers run one after the other: their order must not depend on the order of sets
	if d.control.sort {
		d.containers.sortAdded()
	}
	spec.InitContainers, spec.Containers = d.init.placed(), d.containers.placed()
	spec.Volumes = slices.Concat(spec.Volumes, d.addVolumes)
	spec.ImagePullSecrets = slices.Concat(spec.ImagePullSecrets, d.addSecrets)
	d.pod.Annotations = d.annotations
}
