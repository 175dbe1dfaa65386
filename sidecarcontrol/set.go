package sidecarcontrol

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/sidecarcontrol/sizing"
)

// InvalidSet means that a set cannot be used. The reason names the field.
const InvalidSet reason.Code = "InvalidSet"

// Spec says what to inject into which Pods. NewSet makes a Set of a Spec.
type Spec struct {
	// Name tells sets apart, also on their Pods. Required. The name must not have a comma.
	Name string
	// Selector selects Pods by their labels. Nil and empty select none.
	Selector *metav1.LabelSelector
	// NamespaceSelector selects the Pods' namespaces by their labels. Nil selects all.
	NamespaceSelector *metav1.LabelSelector
	// InitContainers and Containers are injected. An init container with restartPolicy Always is a native sidecar. Later
	// upgrades ignore every other init container.
	InitContainers, Containers []Sidecar
	// Volumes are available to the sidecars. A volume without a mount in a sidecar is not injected.
	Volumes []corev1.Volume
	// ImagePullSecrets are added to the Pod's.
	ImagePullSecrets []corev1.LocalObjectReference
	// Annotations are added to the Pod's, in order.
	Annotations []AnnotationPatch
	// Hash and HashWithoutImages stand for the injected content. An empty hash is computed from the sidecars. A caller
	// with already published hashes gives its own.
	Hash, HashWithoutImages string
	// Revision is recorded on Pods, for whoever keeps a history of sets. Optional.
	Revision string
	// Version is the version told to containers of a hot upgrade: a decimal number, growing with each change.
	Version string
	// Paused stops injections of the set. Pods with the sidecars are upgraded all the same.
	Paused bool
	// Replaces is the name of another set. The other set is not injected into Pods matched by the present set. Optional.
	Replaces string
	// Pin has some Pods get another version of the set. Optional.
	Pin *Pin
}

// Pin has Pods get another version of a set than the newest.
type Pin struct {
	// Set is the pinned version. Nil, for example because the version no longer exists, refuses the Pods pinned to Set.
	Set *Set
	// Selector selects the Pods allowed to get the newest version. All other Pods are pinned. Nil selects all.
	Selector *metav1.LabelSelector
	// Share is the pinned part of the Pods selected by Selector: from 0 for none to 1 for all.
	Share float64

	selector labels.Selector
}

// Sidecar is a container to inject.
type Sidecar struct {
	corev1.Container `json:",inline"`

	// AfterApp places the container behind the Pod's own containers. If false, the container goes before them.
	AfterApp bool `json:"afterApp,omitempty"`
	// Hot upgrades the container without a gap: the container is injected twice, as a working and an idle twin.
	Hot *Hot `json:"hot,omitempty"`
	// ShareMounts and ShareDevices copy volume mounts and devices of the Pod's own containers.
	ShareMounts  bool `json:"shareMounts,omitempty"`
	ShareDevices bool `json:"shareDevices,omitempty"`
	// TransferEnv copies env variables of the Pod's own containers.
	TransferEnv []TransferEnv `json:"transferEnv,omitempty"`
	// ResourcesPolicy computes the resources from the resources of the Pod's own containers. A policy excludes Resources.
	ResourcesPolicy *sizing.Policy `json:"resourcesPolicy,omitempty"`
}

// Hot says how a sidecar is upgraded without a gap.
type Hot struct {
	// EmptyImage is the image of the idle twin. The image must run with the same command and probes.
	EmptyImage string `json:"emptyImage"`
}

// TransferEnv names env variables of a container of the Pod. Missing variables are left out.
type TransferEnv struct {
	// Container is the container's name, ignored if ContainerFrom is set. ContainerFrom is the path of a Pod's label or
	// annotation with the name, such as metadata.labels['biz'].
	Container     string `json:"container,omitempty"`
	ContainerFrom string `json:"containerFrom,omitempty"`
	// Names of the variables.
	Names []string `json:"names,omitempty"`
}

// PatchPolicy says how to treat an annotation already on the Pod.
type PatchPolicy string

// Policies of an AnnotationPatch.
const (
	// Retain leaves the Pod's value.
	Retain PatchPolicy = "Retain"
	// Overwrite replaces the Pod's value.
	Overwrite PatchPolicy = "Overwrite"
	// MergePatchJSON applies the value to the Pod's as a JSON merge patch (RFC 7386).
	MergePatchJSON PatchPolicy = "MergePatchJson"
)

// AnnotationPatch adds annotations to a Pod.
type AnnotationPatch struct {
	Annotations map[string]string
	// Policy is Retain if empty.
	Policy PatchPolicy
}

// Set is a checked and compiled Spec. A Set is immutable and safe for concurrent use. Make a Set with NewSet.
type Set struct {
	spec       Spec
	selector   labels.Selector
	namespaces labels.Selector // nil for all

	init, containers []sidecar
	// names are the names of the upgradable sidecars, as listed in the records on Pods.
	names []string
}

// sidecar is a Sidecar with computed facts.
type sidecar struct {
	*Sidecar

	upgraded  bool          // false for a plain init container, already ended when the rest runs
	resources *sizing.Sizes // nil without a policy
	transfer  []transfer
	path      string // of the container in the set
}

type transfer struct {
	container         string
	label, annotation string // where the container's name is, if either is given
	names             []string
}

// NewSet checks and compiles a copy of a spec. The error is a reason.List with code InvalidSet or the code of
// sizing.Compile, and names every wrong field. NewSet does not repeat the API server's checks of containers and
// volumes.
func NewSet(spec Spec) (*Set, error) {
	spec = spec.clone()
	s := &Set{spec: spec}
	c := compiler{set: s, names: map[string]string{}}
	if spec.Name == "" || strings.Contains(spec.Name, ",") {
		c.refuse("name", spec.Name, "must not be empty and must not have a comma")
	}
	s.selector = c.selector("selector", spec.Selector, labels.Nothing())
	if spec.NamespaceSelector != nil {
		s.namespaces = c.selector("namespaceSelector", spec.NamespaceSelector, labels.Everything())
	}
	s.init = c.sidecars("initContainers", spec.InitContainers, true)
	s.containers = c.sidecars("containers", spec.Containers, false)
	c.annotations()
	c.pin()
	if len(c.problems) > 0 {
		return nil, c.problems
	}
	for side := range s.all() {
		if side.upgraded {
			s.names = append(s.names, side.Name)
		}
	}
	slices.Sort(s.names)
	return s, s.hash()
}

// clone returns a copy that shares no injected part.
func (s Spec) clone() Spec {
	sidecars := func(list []Sidecar) []Sidecar {
		out := slices.Clone(list)
		for i := range out {
			list[i].Container.DeepCopyInto(&out[i].Container)
			if list[i].Hot != nil {
				hot := *list[i].Hot
				out[i].Hot = &hot
			}
		}
		return out
	}
	s.InitContainers, s.Containers = sidecars(s.InitContainers), sidecars(s.Containers)
	s.Volumes = slices.Clone(s.Volumes)
	for i := range s.Volumes {
		s.Volumes[i] = *s.Volumes[i].DeepCopy()
	}
	s.ImagePullSecrets, s.Annotations = slices.Clone(s.ImagePullSecrets), slices.Clone(s.Annotations)
	for i := range s.Annotations {
		s.Annotations[i].Annotations = maps.Clone(s.Annotations[i].Annotations)
	}
	return s
}

// all iterates over the sidecars, init containers first.
func (s *Set) all() iter.Seq[*sidecar] {
	return func(yield func(*sidecar) bool) {
		for _, list := range [][]sidecar{s.init, s.containers} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}

// Name returns the set's name.
func (s *Set) Name() string { return s.spec.Name }

// Hash returns the hash of the set's sidecars.
func (s *Set) Hash() string { return s.spec.Hash }

// Equal reports whether running Pods stand alike with both sets. Equal ignores Version, Revision and Pin, which matter
// only for new Pods.
func (s *Set) Equal(other *Set) bool {
	if s == other {
		return true
	}
	plain := func(s *Set) Spec {
		spec := s.spec
		spec.Version, spec.Revision, spec.Pin = "", "", nil
		return spec
	}
	return other != nil && apiequality.Semantic.DeepEqual(plain(s), plain(other))
}

// Matches reports whether the set is for Pods with the labels pod in a namespace with the labels namespace.
func (s *Set) Matches(pod, namespace map[string]string) bool {
	return s.selector != nil && s.selector.Matches(labels.Set(pod)) && (s.namespaces == nil || s.namespaces.Matches(labels.Set(namespace)))
}

// hash computes missing hashes.
func (s *Set) hash() error {
	if s.spec.Hash != "" && s.spec.HashWithoutImages != "" {
		return nil
	}
	with, without := struct {
		Containers     []Sidecar `json:"containers"`
		InitContainers []Sidecar `json:"initContainers,omitempty"`
	}{Containers: s.spec.Containers}, struct {
		Containers     []Sidecar `json:"containers"`
		InitContainers []Sidecar `json:"initContainers,omitempty"`
	}{Containers: withoutImages(s.spec.Containers)}
	if slices.ContainsFunc(s.init, func(c sidecar) bool { return c.upgraded }) {
		with.InitContainers, without.InitContainers = s.spec.InitContainers, withoutImages(s.spec.InitContainers)
	}
	for _, part := range []struct {
		of   any
		into *string
	}{{with, &s.spec.Hash}, {without, &s.spec.HashWithoutImages}} {
		if *part.into != "" {
			continue
		}
		raw, err := json.Marshal(part.of)
		if err != nil {
			return fmt.Errorf("sidecarcontrol: hashing set %s: %w", s.spec.Name, err)
		}
		*part.into = HashOf(raw)
	}
	return nil
}

func withoutImages(list []Sidecar) []Sidecar {
	out := slices.Clone(list)
	for i := range out {
		out[i].Image = ""
	}
	return out
}

// HashOf returns the hash of the JSON of the injected sidecars: SHA-256, in an alphabet that forms no words. The hash
// is OpenKruise's.
func HashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return rand.SafeEncodeString(hex.EncodeToString(sum[:]))
}

// compiler collects the faults of a set.
type compiler struct {
	set      *Set
	problems reason.List
	names    map[string]string // where a container of the name is
}

func (c *compiler) refuse(path, value, detail string) {
	c.problems = append(c.problems, reason.Reason{
		Code: InvalidSet, Object: reason.Object{Kind: "set", Name: c.set.spec.Name}, Path: path, New: reason.Shorten(value, 100), Detail: detail,
	})
}

// under adds the faults of a part, under the part's path.
func (c *compiler) under(path string, err error) {
	for _, problem := range reason.From(err) {
		problem.Object, problem.Path = reason.Object{Kind: "set", Name: c.set.spec.Name}, path+problem.Path
		c.problems = append(c.problems, problem)
	}
}

func (c *compiler) selector(path string, selector *metav1.LabelSelector, otherwise labels.Selector) labels.Selector {
	if selector == nil || len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
		return otherwise
	}
	compiled, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		c.refuse(path, "", err.Error())
		return otherwise
	}
	return compiled
}

func (c *compiler) sidecars(path string, list []Sidecar, init bool) []sidecar {
	out := make([]sidecar, len(list))
	for i := range list {
		s := &list[i]
		at := fmt.Sprintf("%s[%d]", path, i)
		out[i] = sidecar{Sidecar: s, upgraded: !init || podstate.IsNativeSidecar(&s.Container), path: at}
		for _, name := range out[i].injectedNames() {
			if other, taken := c.names[name]; taken {
				c.refuse(at+".name", name, "is the name of "+other+" too")
			}
			c.names[name] = at
		}
		if s.Image != strings.TrimSpace(s.Image) { // the API server takes such an image in a template, and in no Pod
			c.refuse(at+".image", strconv.Quote(s.Image), "must not begin or end with space")
		}
		c.hot(at, &out[i], init)
		out[i].transfer = c.transfers(at, s.TransferEnv)
		if s.ResourcesPolicy == nil {
			continue
		}
		if !out[i].upgraded {
			c.refuse(at+".resourcesPolicy", "", "is for containers that run beside others, and not for init containers")
		}
		var err error
		if out[i].resources, err = sizing.Compile(*s.ResourcesPolicy); err != nil {
			c.under(at+".resourcesPolicy.", err)
		}
	}
	return out
}

func (c *compiler) hot(at string, s *sidecar, init bool) {
	switch {
	case s.Hot == nil:
	case init:
		c.refuse(at+".hot", "", "is for containers; an init container cannot be upgraded without a gap")
	case s.Hot.EmptyImage == "":
		c.refuse(at+".hot.emptyImage", "", "is required")
	case s.Hot.EmptyImage == s.Image:
		c.refuse(at+".hot.emptyImage", s.Image, "must not be the image of the sidecar")
	case s.Hot.EmptyImage != strings.TrimSpace(s.Hot.EmptyImage):
		c.refuse(at+".hot.emptyImage", strconv.Quote(s.Hot.EmptyImage), "must not begin or end with space")
	}
}

// fieldPath is the form of TransferEnv.ContainerFrom.
const fieldPath = `^metadata\.(labels|annotations)\['([^']+)'\]$`

func (c *compiler) transfers(at string, list []TransferEnv) (out []transfer) {
	for i, t := range list {
		one := transfer{container: t.Container, names: slices.Compact(slices.Sorted(slices.Values(t.Names)))}
		if t.ContainerFrom != "" {
			found := regexp.MustCompile(fieldPath).FindStringSubmatch(t.ContainerFrom)
			switch {
			case found == nil:
				c.refuse(fmt.Sprintf("%s.transferEnv[%d].containerFrom", at, i), t.ContainerFrom, "must be metadata.labels['key'] or metadata.annotations['key']")
			case found[1] == "labels":
				one.label = found[2]
			default:
				one.annotation = found[2]
			}
		}
		out = append(out, one)
	}
	return out
}

func (c *compiler) annotations() {
	for i, patch := range c.set.spec.Annotations {
		switch patch.Policy {
		case "", Retain, Overwrite, MergePatchJSON:
		default:
			c.refuse(fmt.Sprintf("annotations[%d].policy", i), string(patch.Policy), "must be Retain, Overwrite or MergePatchJson")
		}
	}
}

func (c *compiler) pin() {
	pin := c.set.spec.Pin
	if pin == nil {
		return
	}
	compiled := *pin
	compiled.selector = labels.Everything()
	if pin.Selector != nil {
		compiled.selector = c.selector("pin.selector", pin.Selector, labels.Everything())
	}
	if !(pin.Share >= 0 && pin.Share <= 1) {
		c.refuse("pin.share", fmt.Sprint(pin.Share), "must be from 0 to 1")
	}
	if pin.Set != nil && pin.Set.Name() != c.set.spec.Name {
		c.refuse("pin.set", pin.Set.Name(), "must be another version of the set, with its name")
	}
	c.set.spec.Pin = &compiled
}

// injectedNames are the names of a sidecar's containers.
func (s *sidecar) injectedNames() []string {
	if s.Hot == nil {
		return []string{s.Name}
	}
	return twinsOf(s.Name)
}
