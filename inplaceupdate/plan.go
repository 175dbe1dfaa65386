package inplaceupdate

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
)

// Plan says whether, and with which changes, a Pod of the old template can become a Pod of the new template. All Pods
// with the same old and new revision share a Plan, so do not modify a Plan. The zero value is the plan for equal
// templates.
type Plan struct {
	// Blocking names every blocking field and is empty if the update is possible.
	Blocking reason.List

	// Labels and Annotations map each changed key outside RefMetadata to the new value. A nil value removes the key.
	Labels, Annotations map[string]*string
	// AddFinalizers and RemoveFinalizers are finalizers that the new template adds or removes.
	AddFinalizers, RemoveFinalizers []string
	// Images are the new images, by name of the container or native sidecar.
	Images map[string]string
	// Resources are the changed cpu and memory values, by name of the container or native sidecar.
	Resources map[string]corev1.ResourceRequirements
	// RefMetadata holds, by name of the container or native sidecar, the labels and annotations that the container
	// reads through env. These labels and annotations are changed together with the container's other changes.
	RefMetadata map[string]RefMetadata
	// ResizeRestarts is set if the kubelet restarts a container because of the resize policy of a changed resource.
	ResizeRestarts bool
}

// RefMetadata is the part of a Pod's metadata that a container reads through env.
type RefMetadata struct {
	// Labels are the labels that the container reads, with their new values.
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations are the annotations that the container reads, with their new values.
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Possible reports whether the Pod can be updated in place.
func (p *Plan) Possible() bool { return len(p.Blocking) == 0 }

// Immediate reports whether the update is complete as soon as the patch is written, because only metadata changes and
// no container needs a restart.
func (p *Plan) Immediate() bool {
	return len(p.Images) == 0 && len(p.Resources) == 0 && len(p.RefMetadata) == 0
}

// TrafficOff reports whether the Pod must be taken out of service before the update, because a container restarts. A
// resize restarts a container only if its resize policy says so. Changed metadata alone never restarts a container.
func (p *Plan) TrafficOff() bool {
	return len(p.Images) > 0 || len(p.RefMetadata) > 0 || p.ResizeRestarts
}

// Plan compares two templates and returns the plan for an update from one to the other; Plan does not modify the
// templates. A nil template means an unknown revision, and makes the update impossible. An impossible plan names every
// blocking field. Of the fields that cannot be changed on a live Pod, the plan names the first 20 and counts all
// others.
func (u *Updater) Plan(from, to *corev1.PodTemplateSpec) *Plan {
	if err := u.ready(); err != nil {
		return &Plan{Blocking: reason.From(err)}
	}
	if from == nil || to == nil {
		return &Plan{Blocking: unknownRevision()}
	}
	p := &Plan{}
	// rest is a shallow copy of the new template. Plan sets all fields that can be updated in place to their old
	// values; then rest must equal the old template.
	rest := *to
	u.planMetadata(p, from, &rest)
	p.Blocking = append(p.Blocking, containersChanged(from, to)...)
	rest.Spec.Containers = u.planContainers(p, "spec.containers", from.Spec.Containers, to.Spec.Containers)
	rest.Spec.InitContainers = u.planContainers(p, "spec.initContainers", from.Spec.InitContainers,
		to.Spec.InitContainers)
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

// same reports whether two values are semantically equal. DeepEqual is tried first because DeepEqual allocates almost
// nothing. Templates decoded by the same code are deeply equal if they are semantically equal at all.
func same(a, b any) bool { return reflect.DeepEqual(a, b) || equality.Semantic.DeepEqual(a, b) }

// planMetadata plans the changes of labels, annotations and finalizers, and sets the metadata of rest to the metadata
// of from.
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
		u.planRefMetadata(p, &rest.Spec)
	}
}

// blockAnnotations names changed annotations that the API server does not let anybody change on a Pod
// (ValidatePodSpecificAnnotationUpdates in pkg/apis/core/validation/validation.go of Kubernetes 1.36).
func (p *Plan) blockAnnotations(from, to *corev1.PodTemplateSpec) {
	if len(p.Annotations) == 0 {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(p.Annotations)) {
		if key == corev1.MirrorPodAnnotationKey ||
			strings.HasPrefix(key, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix) {
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

// planContainers plans the changes of images and resources, and returns the new containers with the old images and
// resources. The result has the names and order of the old containers: differences of names and order have been
// reported separately, and other fields are compared by container name.
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

// aligned returns the new containers in the order of the old containers. If a container is missing in the new list, the
// result has the old container. The caller may modify the slice.
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
			Detail: "containers of a live Pod cannot be added, removed or put in another order",
			Remedy: "recreate the Pod",
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

// maxPlans limits the number of plans kept by a Planner. A rollout needs a plan for each revision that Pods still have.
const maxPlans = 4096

// Planner caches a Plan for each pair of old and new revision, so only the first Pod updated between two revisions
// costs more than a map lookup. Make a Planner with NewPlanner. A Planner is safe for concurrent use.
type Planner struct {
	updater *Updater
	decoder *revision.Decoder
	extra   func(from, to *appsv1.ControllerRevision) reason.List

	mu    sync.RWMutex
	plans map[pair]planned
}

type pair struct{ from, to types.UID }

// planned is a plan and the resource versions of its revisions. If somebody rewrites a revision's annotations, the
// versions show that the plan is stale.
type planned struct {
	*Plan

	from, to string
}

// NewPlanner returns a Planner that caches the plans of an Updater. Updater and decoder are required: if one is
// missing, every plan is impossible, with code InvalidConfig. extra may be nil; otherwise extra returns reasons against
// an in-place update that do not follow from the templates, for example a changed hash of claim templates in the
// revisions' annotations. extra may read all fields of both revisions, and its result must depend on nothing else.
func NewPlanner(
	updater *Updater, decoder *revision.Decoder, extra func(from, to *appsv1.ControllerRevision) reason.List,
) *Planner {
	return &Planner{updater: updater, decoder: decoder, extra: extra, plans: make(map[pair]planned)}
}

// Plan returns the plan for the update from a Pod's revision to another revision. A nil revision is unknown and makes
// the update impossible. Pods share the plan, so do not modify the plan. Plan does not cache plans of revisions without
// a UID, as used in predictions.
func (p *Planner) Plan(from, to *appsv1.ControllerRevision) *Plan {
	switch {
	case p.updater == nil, p.decoder == nil:
		return &Plan{Blocking: reason.List{{Code: InvalidConfig, Detail: "the Planner has no Updater or no decoder"}}}
	case from == nil, to == nil:
		return &Plan{Blocking: unknownRevision()}
	}
	if from.UID == "" || to.UID == "" {
		return p.compute(from, to)
	}
	key := pair{from.UID, to.UID}
	p.mu.RLock()
	known := p.plans[key]
	p.mu.RUnlock()
	if known.Plan != nil && known.from == from.ResourceVersion && known.to == to.ResourceVersion {
		return known.Plan
	}
	plan := p.compute(from, to)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.plans) >= maxPlans {
		clear(p.plans)
	}
	p.plans[key] = planned{plan, from.ResourceVersion, to.ResourceVersion}
	return plan
}

func (p *Planner) compute(from, to *appsv1.ControllerRevision) *Plan {
	a, err := p.decoder.Content(from)
	if err != nil {
		return &Plan{Blocking: undecodable(err)}
	}
	b, err := p.decoder.Content(to)
	if err != nil {
		return &Plan{Blocking: undecodable(err)}
	}
	plan := p.updater.Plan(a.Template, b.Template)
	blocking := plan.Blocking
	if string(a.Outside) != string(b.Outside) {
		blocking = append(blocking, reason.Reason{
			Code: OutsideTemplate, Path: "data", Old: shorten(string(a.Outside)), New: shorten(string(b.Outside)),
			Remedy: "recreate the Pod",
		})
	}
	if p.extra != nil {
		blocking = append(blocking, p.extra(from, to)...)
	}
	if len(blocking) > 0 {
		return &Plan{Blocking: blocking}
	}
	return plan
}

// undecodable returns a decoder's error as a list of at least one reason, because a plan without reasons would count as
// possible.
func undecodable(err error) reason.List {
	if list := reason.From(err); len(list) > 0 {
		return list
	}
	return reason.List{{Code: revision.UnreadableRevision, Detail: err.Error(), Remedy: "recreate the Pod"}}
}

func unknownRevision() reason.List {
	return reason.List{{
		Code: RevisionMissing, Path: "metadata.labels", Detail: "the Pod's revision or the one to update to is unknown",
		Remedy: "recreate the Pod",
	}}
}

// Blocked returns a copy of the plan with more reasons against an in-place update, or the plan itself if there are
// none.
func (p *Plan) Blocked(why reason.List) *Plan {
	if len(why) == 0 {
		return p
	}
	return &Plan{Blocking: slices.Concat(p.Blocking, why)}
}
