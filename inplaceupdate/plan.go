package inplaceupdate

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// Plan is the answer to "can a Pod of the old template become one of the new template?". It is shared between all Pods of
// the same pair of revisions: read only. The zero value is the plan for equal templates.
type Plan struct {
	// Blocking names every field that blocks the update; empty when the update is possible.
	Blocking reason.List

	// Labels and Annotations are set to the value, or removed where it is nil: all keys that change except those in
	// RefMetadata.
	Labels, Annotations map[string]*string
	// AddFinalizers and RemoveFinalizers are the template's changes of finalizers.
	AddFinalizers, RemoveFinalizers []string
	// Images are the new images, by container or native sidecar.
	Images map[string]string
	// Resources are the cpu and memory values that change, by container or native sidecar.
	Resources map[string]corev1.ResourceRequirements
	// RefMetadata holds, by container, the labels and annotations that the container reads through env. They are delivered
	// together with the container's other changes.
	RefMetadata map[string]RefMetadata
	// ResizeRestarts is set when a resource changes whose resize policy restarts the container.
	ResizeRestarts bool
}

// RefMetadata is the part of a Pod's metadata that a container reads through env.
type RefMetadata struct {
	// Labels that the container reads, with their new values.
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations that the container reads, with their new values.
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Possible reports whether the update can be done in place.
func (p *Plan) Possible() bool { return len(p.Blocking) == 0 }

// Immediate reports whether the update is complete as soon as it is written, because it changes only metadata that no
// container has to be restarted for.
func (p *Plan) Immediate() bool {
	return len(p.Images) == 0 && len(p.Resources) == 0 && len(p.RefMetadata) == 0
}

// TrafficOff reports whether the Pod has to be taken out of service first: if a container is restarted. A resize restarts one
// only if its resize policy says so, and metadata alone never does.
func (p *Plan) TrafficOff() bool {
	return len(p.Images) > 0 || len(p.RefMetadata) > 0 || p.ResizeRestarts
}

// Plan compares two templates. Neither is modified. A nil template is one of an unknown revision, which blocks. A plan that is
// not possible names every blocking field; of those that nobody can change on a live Pod it names the first 20, and says how
// many there are more.
func (u *Updater) Plan(from, to *corev1.PodTemplateSpec) *Plan {
	if err := u.ready(); err != nil {
		return &Plan{Blocking: reason.From(err)}
	}
	if from == nil || to == nil {
		return &Plan{Blocking: unknownRevision()}
	}
	p := &Plan{}
	// A shallow copy, in which all that can be delivered is set to the old values. Then the rest must be equal.
	rest := *to
	u.planMetadata(p, from, &rest)
	p.Blocking = append(p.Blocking, containersChanged(from, to)...)
	rest.Spec.Containers = u.planContainers(p, "spec.containers", from.Spec.Containers, to.Spec.Containers)
	rest.Spec.InitContainers = u.planContainers(p, "spec.initContainers", from.Spec.InitContainers, to.Spec.InitContainers)
	if len(p.Resources) > 0 {
		p.checkQOS(from, to)
	}
	if !same(from, &rest) {
		p.Blocking = append(p.Blocking, differences(from, &rest)...)
	}
	if !p.Possible() {
		*p = Plan{Blocking: p.Blocking}
	}
	return p
}

// same reports whether two values mean the same. The strict comparison comes first because it allocates almost nothing, and
// templates that were decoded by the same code are strictly equal if they are equal at all.
func same(a, b any) bool { return reflect.DeepEqual(a, b) || equality.Semantic.DeepEqual(a, b) }

// planMetadata plans the changes of labels, annotations and finalizers, and sets them to the old ones in rest.
func (u *Updater) planMetadata(p *Plan, from, rest *corev1.PodTemplateSpec) {
	p.Labels = changedKeys(from.Labels, rest.Labels)
	p.Annotations = changedKeys(from.Annotations, rest.Annotations)
	u.config.Keys.withoutReserved(p)
	p.blockAnnotations(from, rest)
	for _, f := range rest.Finalizers {
		if !slices.Contains(from.Finalizers, f) {
			p.AddFinalizers = append(p.AddFinalizers, f)
		}
	}
	for _, f := range from.Finalizers {
		if !slices.Contains(rest.Finalizers, f) {
			p.RemoveFinalizers = append(p.RemoveFinalizers, f)
		}
	}
	rest.Labels, rest.Annotations, rest.Finalizers = from.Labels, from.Annotations, from.Finalizers
	if u.config.EnvFromMetadata && len(p.Labels)+len(p.Annotations) > 0 {
		u.planRefMetadata(p, rest.Spec.Containers)
	}
}

// blockAnnotations names the annotations that the API server keeps as they are for a Pod's life
// (ValidatePodSpecificAnnotationUpdates in pkg/apis/core/validation/validation.go of Kubernetes 1.36).
func (p *Plan) blockAnnotations(from, to *corev1.PodTemplateSpec) {
	if len(p.Annotations) == 0 {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(p.Annotations)) {
		if key == corev1.MirrorPodAnnotationKey || strings.HasPrefix(key, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix) {
			p.block(ImmutableField, "metadata.annotations["+key+"]", from.Annotations[key], to.Annotations[key],
				"the API server does not let it change on a live Pod", "recreate the Pod")
		}
	}
}

func changedKeys(from, to map[string]string) map[string]*string {
	var changed map[string]*string
	for key, value := range to {
		if old, ok := from[key]; !ok || old != value {
			put(&changed, key, &value)
		}
	}
	for key := range from {
		if _, ok := to[key]; !ok {
			put(&changed, key, nil)
		}
	}
	return changed
}

// planContainers plans the changes of images and resources, and returns the new containers with the old ones. They have the
// names and order of the old containers: differences of those are reported already, and the rest is compared by name.
func (u *Updater) planContainers(p *Plan, path string, from, to []corev1.Container) []corev1.Container {
	if len(from) == 0 {
		return from
	}
	rest := aligned(from, to)
	for i := range rest {
		old, now := &from[i], &rest[i]
		live := path == "spec.containers" || (podstate.IsNativeSidecar(old) && podstate.IsNativeSidecar(now))
		if old.Image != now.Image {
			if live {
				put(&p.Images, now.Name, now.Image)
			} else {
				p.block(InitContainerImage, path+"["+now.Name+"].image", old.Image, now.Image,
					"a plain init container has run and never restarts", "recreate the Pod")
			}
			now.Image = old.Image
		}
		if live {
			u.planResources(p, path, old, now)
		}
	}
	return rest
}

func (p *Plan) block(code reason.Code, path, was, now, detail, remedy string) {
	p.Blocking = append(p.Blocking, reason.Reason{
		Code: code, Path: path, Old: shorten(was), New: shorten(now), Detail: detail, Remedy: remedy,
	})
}

func shorten(value string) string { return reason.Shorten(value, 80) }

// sameNames reports whether both lists have the same containers in the same order.
func sameNames(a, b []corev1.Container) bool {
	return slices.EqualFunc(a, b, func(a, b corev1.Container) bool { return a.Name == b.Name })
}

// aligned returns the new containers in the order of the old ones. If a new one is missing, the old one takes its place. The
// slice is the caller's.
func aligned(from, to []corev1.Container) []corev1.Container {
	if sameNames(from, to) {
		return slices.Clone(to)
	}
	out := slices.Clone(from)
	for i := range out {
		if at := slices.IndexFunc(to, func(c corev1.Container) bool { return c.Name == out[i].Name }); at >= 0 {
			out[i] = to[at]
		}
	}
	return out
}

func containersChanged(from, to *corev1.PodTemplateSpec) reason.List {
	var list reason.List
	compare := func(path string, a, b []corev1.Container) {
		if sameNames(a, b) {
			return
		}
		list = append(list, reason.Reason{
			Code: ContainersChanged, Path: path, Old: names(a), New: names(b),
			Detail: "containers of a live Pod cannot be added, removed or put in another order", Remedy: "recreate the Pod",
		})
	}
	compare("spec.containers", from.Spec.Containers, to.Spec.Containers)
	compare("spec.initContainers", from.Spec.InitContainers, to.Spec.InitContainers)
	return list
}

func names(containers []corev1.Container) string {
	list := make([]string, len(containers))
	for i := range containers {
		list[i] = containers[i].Name
	}
	return shorten(fmt.Sprint(list))
}
