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

// InvalidSet means that the Spec of a set is invalid. The reason names the field.
const InvalidSet reason.Code = "InvalidSet"

// Spec says which containers to inject into which Pods. NewSet makes a Set from a Spec.
type Spec struct {
	// Name identifies the set, also in the annotations of Pods. Required. The name must not contain a comma.
	Name string
	// Selector selects Pods by their labels. If nil or empty, no Pods are selected.
	Selector *metav1.LabelSelector
	// NamespaceSelector selects the Pods' namespaces by their labels. If nil, all namespaces are selected.
	NamespaceSelector *metav1.LabelSelector
	// InitContainers and Containers are the sidecars to inject. An init container with restartPolicy Always is a native
	// sidecar. Upgrades ignore all other init containers.
	InitContainers, Containers []Sidecar
	// Volumes are volumes that the sidecars may mount. A volume that no sidecar mounts is not injected.
	Volumes []corev1.Volume
	// ImagePullSecrets are added to the Pod's pull secrets.
	ImagePullSecrets []corev1.LocalObjectReference
	// Annotations are added to the Pod's annotations, in order.
	Annotations []AnnotationPatch
	// Hash and HashWithoutImages identify the injected content. If empty, a hash is computed from the sidecars. If
	// hashes were written to Pods already, for example by another controller, pass the same hashes.
	Hash, HashWithoutImages string
	// Revision is recorded on Pods, for callers that keep a history of sets. Optional.
	Revision string
	// Version is the version that containers of a hot upgrade can read: a decimal number that grows with each change.
	Version string
	// Paused stops the injection of the set into new Pods. Pods that have the sidecars already are still upgraded.
	Paused bool
	// Replaces is the name of another set. The other set is not injected into Pods that this set matches. Optional.
	Replaces string
	// Pin injects another version of the set into some Pods. Optional.
	Pin *Pin
}

// Pin says which new Pods get an older version of a set instead of the newest version.
type Pin struct {
	// Set is the version of the set that pinned Pods get. If nil, for example because the version no longer exists, the
	// creation of pinned Pods is refused.
	Set *Set
	// Selector selects the Pods that may get the newest version. All other Pods are pinned. If Selector is nil, all
	// Pods may get the newest version.
	Selector *metav1.LabelSelector
	// Share is the fraction of the Pods selected by Selector that are pinned: from 0 for none to 1 for all.
	Share float64

	selector labels.Selector
}

// Sidecar is a container to inject.
type Sidecar struct {
	corev1.Container `json:",inline"`

	// AfterApp adds the container after the Pod's own containers. If false, the container is added before the Pod's own
	// containers.
	AfterApp bool `json:"afterApp,omitempty"`
	// Hot makes upgrades without a gap possible: the container is injected twice, as a working and an idle twin.
	Hot *Hot `json:"hot,omitempty"`
	// ShareMounts and ShareDevices copy volume mounts and volume devices of the Pod's own containers to the sidecar.
	ShareMounts  bool `json:"shareMounts,omitempty"`
	ShareDevices bool `json:"shareDevices,omitempty"`
	// TransferEnv copies env variables of the Pod's own containers to the sidecar.
	TransferEnv []TransferEnv `json:"transferEnv,omitempty"`
	// ResourcesPolicy computes the sidecar's resources from the resources of the Pod's own containers. If set, the
	// sidecar must not have Resources.
	ResourcesPolicy *sizing.Policy `json:"resourcesPolicy,omitempty"`
}

// Hot has the settings of a sidecar that is upgraded without a gap.
type Hot struct {
	// EmptyImage is the image of the idle twin. The image must run with the same command and probes.
	EmptyImage string `json:"emptyImage"`
}

// TransferEnv names env variables to copy from a container of the Pod. Variables that the container does not have are
// left out.
type TransferEnv struct {
	// Container is the name of the Pod's container, ignored if ContainerFrom is set. ContainerFrom is the path of a
	// Pod's label or annotation that holds the container's name, such as metadata.labels['biz'].
	Container     string `json:"container,omitempty"`
	ContainerFrom string `json:"containerFrom,omitempty"`
	// Names are the names of the variables.
	Names []string `json:"names,omitempty"`
}

// PatchPolicy says what to do if the Pod already has an annotation of the patch.
type PatchPolicy string

// These are the policies of an AnnotationPatch.
const (
	// Retain keeps the Pod's value.
	Retain PatchPolicy = "Retain"
	// Overwrite replaces the Pod's value.
	Overwrite PatchPolicy = "Overwrite"
	// MergePatchJSON merges the value into the Pod's value as a JSON merge patch (RFC 7386).
	MergePatchJSON PatchPolicy = "MergePatchJson"
)

// AnnotationPatch adds annotations to a Pod.
type AnnotationPatch struct {
	Annotations map[string]string
	// Policy defaults to Retain.
	Policy PatchPolicy
}

// Set is a validated and compiled Spec. A Set is immutable and safe for concurrent use. Make a Set with NewSet.
type Set struct {
	spec       Spec
	selector   labels.Selector
	namespaces labels.Selector // nil selects all namespaces

	init, containers []sidecar
	// names are the names of the sidecars that can be upgraded, as recorded on Pods.
	names []string
}

// sidecar is a Sidecar with values derived from it.
type sidecar struct {
	*Sidecar

	upgraded  bool          // false for a plain init container, which has ended before other containers run
	resources *sizing.Sizes // nil if there is no policy
	transfer  []transfer
	path      string // field path of the container in the set
}

type transfer struct {
	container         string
	label, annotation string // key of the label or annotation with the container's name, if one is given
	names             []string
}

// NewSet validates and compiles a copy of a spec. The error is a reason.List with code InvalidSet or the code of
// sizing.Compile, and names every invalid field. NewSet does not repeat the API server's checks of containers and
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

// clone returns a copy that shares no container or volume with the original.
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

// Equal reports whether Control.Read has the same result for both sets, for every running Pod. Equal ignores Version,
// Revision and Pin, which matter only for Pods being created.
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

// Matches reports whether the set selects a Pod whose labels are pod, in a namespace whose labels are namespace.
func (s *Set) Matches(pod, namespace map[string]string) bool {
	return s.selector != nil && s.selector.Matches(labels.Set(pod)) && (s.namespaces == nil || s.namespaces.Matches(labels.Set(namespace)))
}

// hash computes hashes that the Spec does not give.
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

// HashOf returns the hash of the JSON of the injected sidecars: SHA-256, in an alphabet without vowels, so that no
// words appear. OpenKruise computes the same hash.
func HashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return rand.SafeEncodeString(hex.EncodeToString(sum[:]))
}

// compiler collects the errors in a Spec.
type compiler struct {
	set      *Set
	problems reason.List
	names    map[string]string // field path of the container with the name
}

func (c *compiler) refuse(path, value, detail string) {
	c.problems = append(c.problems, reason.Reason{
		Code: InvalidSet, Object: reason.Object{Kind: "set", Name: c.set.spec.Name}, Path: path, New: reason.Shorten(value, 100), Detail: detail,
	})
}

// under adds the reasons of an error about a part of the Spec, with path as the prefix of the reasons' paths.
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
		// The API server accepts such an image in a Pod template, but not in a Pod.
		if s.Image != strings.TrimSpace(s.Image) {
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

// fieldPath matches a value of TransferEnv.ContainerFrom.
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

// injectedNames returns the names of a sidecar's containers in Pods.
func (s *sidecar) injectedNames() []string {
	if s.Hot == nil {
		return []string{s.Name}
	}
	return twinsOf(s.Name)
}
