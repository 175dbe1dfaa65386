package uniteddeployment

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/uniteddeployment"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
	"github.com/workloadkit/workloadkit/examples/kruise/judge"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout/partition"
	"github.com/workloadkit/workloadkit/subsets"
)

// settings are the values of a UnitedDeployment's spec, with all defaults set and everything compiled.
type settings struct {
	replicas     int
	selector     labels.Selector
	template     template
	rules        *subsets.Rules
	policy       subsets.Policy
	adaptive     bool
	reserve      bool
	historyLimit int

	// warnings are values that the controller can use, but that are probably a mistake.
	warnings reason.List
}

const (
	topologyPath = "spec.topology.subsets"
	adaptivePath = "spec.topology.scheduleStrategy.adaptive"
)

// longestPatch is the largest size of a patch in bytes. The patch is stored in an annotation of the workload, and the
// size of all annotations together is limited.
const longestPatch = 128 << 10

// largestTotal is the largest size in bytes of the Pod templates and claims of all subsets together: the controller
// holds all of these in memory, and admission merges each patch into the template.
const largestTotal = 16 << 20

// subsetPath returns the path of a subset as it is written in the reasons of package subsets.
func subsetPath(name string) *field.Path { return field.NewPath(topologyPath).Key(name) }

// resolve parses and validates the spec, with or without defaults. Problems are values with which no controller can
// work; the settings must then not be used. Warnings are mistakes that the controller tolerates, because objects taken
// over from OpenKruise must continue to work.
func resolve(ud *v1beta1.UnitedDeployment) (s *settings, problems, warnings judge.Faults) {
	if left := judge.Undecodable(ud.Spec.Undecodable); left != nil {
		return nil, left, nil // further checks would only report missing values
	}
	read, spec := &judge.Reading{}, &ud.Spec
	s = &settings{
		replicas:     read.Replicas("spec.replicas", replicasOf(ud)),
		historyLimit: read.OrZero("spec.revisionHistoryLimit", ptr.Deref(spec.RevisionHistoryLimit, api.DefaultRevisionHistoryLimit)),
		selector:     labels.Nothing(),
	}
	s.readTemplate(read, spec)
	if errs := validation.NotTooMany(len(spec.Topology.Subsets), field.NewPath(topologyPath)); len(errs) > 0 {
		read.Refuse(errs...)
		return s, read.Problems, read.Warnings
	}
	s.readSchedule(read, &spec.Topology.ScheduleStrategy)
	s.readNumbers(read, spec.Topology.Subsets)
	s.readSubsets(read, spec.Topology.Subsets)
	readPartitions(read, spec)
	s.warnings = read.Warnings.Reasons()
	return s, read.Problems, read.Warnings
}

func replicasOf(ud *v1beta1.UnitedDeployment) int32 {
	return ptr.Deref(ud.Spec.Replicas, api.DefaultReplicas)
}

// readTemplate parses the template and the selector.
func (s *settings) readTemplate(read *judge.Reading, spec *v1beta1.UnitedDeploymentSpec) {
	found := templatesOf(&spec.Template)
	if len(found) != 1 {
		read.Refuse(field.Invalid(field.NewPath("spec", "template"), len(found), "must have exactly one template: statefulSetTemplate, advancedStatefulSetTemplate, "+
			"cloneSetTemplate or deploymentTemplate"))
		return
	}
	s.template = found[0]
	path, parts := field.NewPath("spec", "template", s.template.name), partsOf(s.template.workload)
	errs := validation.Selector(spec.Selector, parts.pod.Labels, apps.ReservedSubsetLabels(), field.NewPath("spec"))
	for _, err := range errs {
		if err.Field == "spec.template.metadata.labels" {
			err.Field = path.Child("spec", "template", "metadata", "labels").String()
		}
	}
	if read.Refuse(errs...); len(errs) == 0 {
		s.selector = read.Selector("spec.selector", spec.Selector)
	}
	read.Template(path.Child("spec", "template").String(), parts.pod, apps.ReservedSubsetLabels())
	if s.template.name == "cloneSetTemplate" { // OpenKruise accepts other values for this kind
		return
	}
	if own := s.template.workload.GetLabels(); len(errs) == 0 && !s.selector.Matches(labels.Set(own)) {
		read.Warn(field.Invalid(path.Child("metadata", "labels"), own, "must match spec.selector ("+s.selector.String()+")"))
	}
	const owned = "must be unset: each subset has its own"
	if n := *parts.own; n != nil {
		read.Warn(field.Invalid(path.Child("spec", "replicas"), *n, owned))
	}
	if n := parts.kept; n != nil {
		read.Warn(field.Invalid(path.Child("spec", "updateStrategy", "rollingUpdate", "partition"), *n, owned))
	}
}

// readSchedule reads when Pods are recreated in other subsets.
func (s *settings) readSchedule(read *judge.Reading, strategy *v1beta1.UnitedDeploymentScheduleStrategy) {
	judge.OneOf(read, "spec.topology.scheduleStrategy.type", strategy.Type, v1beta1.AdaptiveSchedule, v1beta1.FixedSchedule)
	adaptive := ptr.Deref(strategy.Adaptive, v1beta1.AdaptiveUnitedDeploymentStrategy{})
	pending := read.OrZero(adaptivePath+".rescheduleCriticalSeconds", ptr.Deref(adaptive.RescheduleCriticalSeconds, api.DefaultRescheduleCriticalSeconds))
	closed := read.OrZero(adaptivePath+".unschedulableDuration", ptr.Deref(adaptive.UnschedulableDuration, api.DefaultUnschedulableDuration))
	if s.adaptive = strategy.Type == v1beta1.AdaptiveSchedule; !s.adaptive {
		return
	}
	// In the policy, zero would mean that subsets are never closed.
	s.policy.PendingFor = max(time.Duration(pending)*time.Second, time.Nanosecond)
	s.policy.ClosedFor = max(time.Duration(closed)*time.Second, time.Nanosecond)
	s.reserve = adaptive.ReserveUnschedulablePods
	if s.reserve && s.template.name != "" && !s.template.reserves {
		s.reserve = false
		read.Misread(field.Invalid(field.NewPath(adaptivePath+".reserveUnschedulablePods"), true, "is for deploymentTemplate and cloneSetTemplate alone"),
			"false", "use one of these templates, or leave the field out")
	}
}

// readNumbers compiles the replicas and bounds of the subsets. Admission reports here if the numbers do not add up to
// spec.replicas. The function decide checks the sum again, because the scale subresource changes spec.replicas
// without calling admission.
func (s *settings) readNumbers(read *judge.Reading, list []v1beta1.Subset) {
	config := subsets.Config{
		Fill: subsets.Fixed, Rounding: partition.Nearest,
		Paths: subsets.Paths{Total: "spec.replicas", Subsets: topologyPath, Replicas: "replicas", Min: "minReplicas", Max: "maxReplicas"},
	}
	bounded := slices.ContainsFunc(list, func(s v1beta1.Subset) bool { return s.MinReplicas != nil || s.MaxReplicas != nil })
	if bounded || s.adaptive || len(list) == 0 {
		config.Fill, config.Stay, config.Reserve = subsets.InOrder, s.adaptive && !s.reserve, s.reserve
	}
	compiled := make([]subsets.Subset, len(list))
	for i := range list {
		compiled[i] = subsets.Subset{Name: list[i].Name, Replicas: list[i].Replicas, Min: list[i].MinReplicas, Max: list[i].MaxReplicas}
	}
	rules, err := subsets.New(config, compiled)
	for _, why := range reason.From(err) {
		read.Refuse(refusal(why))
	}
	if s.rules = rules; err != nil {
		return
	}
	if bounded && !slices.ContainsFunc(list, func(s v1beta1.Subset) bool { return s.MaxReplicas == nil }) {
		read.Warn(field.Invalid(field.NewPath(topologyPath), len(list), "must have a subset without maxReplicas, for the Pods that are left"))
	}
	_, err = rules.Divide(s.replicas, nil)
	for _, why := range reason.From(err) {
		read.Warn(refusal(why))
	}
}

// refusal converts a reason to an error of admission.
func refusal(why reason.Reason) *field.Error {
	detail := why.Detail
	if why.Remedy != "" {
		detail = strings.TrimPrefix(detail+"; "+why.Remedy, "; ")
	}
	return field.Invalid(field.NewPath(why.Path), judge.Written(why.New), detail)
}

// totalSize returns the size of the Pod templates and claims of all subsets. The requiredNodeSelectorTerm of a subset
// is counted once for each required Node selector term of the template, because the Pod template contains a copy in
// each term.
func (s *settings) totalSize(list []v1beta1.Subset) (size int) {
	if s.template.name == "" {
		return 0
	}
	parts, terms := partsOf(s.template.workload), 1
	each := parts.pod.Size()
	for i := range parts.claims {
		each += parts.claims[i].Size()
	}
	if a := parts.pod.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		terms = max(1, len(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms))
	}
	for i := range list {
		size += each + terms*list[i].NodeSelectorTerm.Size() + len(list[i].Patch.Raw)
		for j := range list[i].Tolerations {
			size += list[i].Tolerations[j].Size()
		}
	}
	return size
}

// readSubsets validates the sizes, names and patches of subsets.
func (s *settings) readSubsets(read *judge.Reading, list []v1beta1.Subset) {
	if s.totalSize(list) > largestTotal {
		read.Refuse(field.Invalid(field.NewPath(topologyPath), len(list), fmt.Sprintf("must be smaller: with the template, the workloads of all subsets would have "+
			"more than %d MiB; use fewer subsets, a smaller template, or fewer requirements for Nodes", largestTotal>>20)))
		return
	}
	for i := range list {
		subset := &list[i]
		path := subsetPath(subset.Name)
		for _, problem := range utilvalidation.IsDNS1123Label(subset.Name) {
			if subset.Name != "" { // already reported
				read.Warn(field.Invalid(path.Child("name"), subset.Name, problem))
			}
		}
		switch {
		case len(patchOf(subset)) > longestPatch:
			read.Refuse(field.TooLong(path.Child("patch"), "", longestPatch))
		case !read.Patch(path.Child("patch"), []byte(patchOf(subset))):
		case s.template.name != "" && patchOf(subset) != "":
			s.readPatched(read, subset)
		}
	}
}

// readPatched validates the Pod template of a subset after the subset's patch was applied.
func (s *settings) readPatched(read *judge.Reading, subset *v1beta1.Subset) {
	path, text, from := subsetPath(subset.Name).Child("patch"), reason.Shorten(patchOf(subset), 100), partsOf(s.template.workload).pod
	pod, err := patchedPod(from, subset, "")
	if err != nil {
		read.Refuse(field.Invalid(path, text, err.Error()))
		return
	}
	if !s.selector.Matches(labels.Set(pod.Labels)) || pod.Labels[apps.LabelSubsetName] != subset.Name {
		read.Warn(field.Invalid(path, text, "must leave the labels of selectors alone"))
	}
	for _, key := range []string{apps.LabelSubsetRevision, apps.LabelReservedPod} {
		if pod.Labels[key] != from.Labels[key] {
			read.Warn(field.Invalid(path, text, "must leave label "+key+" alone: the controller writes the label, and the patch's value has no effect"))
		}
	}
	read.Warn(validation.NewProblems(refused(pod, path), refused(from, path))...)
}

// refused returns what the API server, or the admission of the workload, would refuse in a Pod template.
func refused(pod *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	return append(validation.LongRunning(pod, path), validation.Reserved(pod, nil, path.Child("metadata"))...)
}

// readPartitions validates the partitions.
func readPartitions(read *judge.Reading, spec *v1beta1.UnitedDeploymentSpec) {
	judge.OneOf(read, "spec.updateStrategy.type", spec.UpdateStrategy.Type, v1beta1.ManualUpdateStrategyType)
	if spec.UpdateStrategy.ManualUpdate == nil {
		return
	}
	partitions := spec.UpdateStrategy.ManualUpdate.Partitions
	for _, name := range slices.Sorted(maps.Keys(partitions)) {
		path := field.NewPath("spec.updateStrategy.manualUpdate.partitions").Key(name)
		read.OrZero(path.String(), partitions[name])
		if !slices.ContainsFunc(spec.Topology.Subsets, func(s v1beta1.Subset) bool { return s.Name == name }) {
			read.Warn(field.Invalid(path, partitions[name], fmt.Sprintf("no subset has the name %q", name)))
		}
	}
}

// partitionOf returns how many Pods of a subset stay at an older revision.
func partitionOf(ud *v1beta1.UnitedDeployment, subset string, replicas int) int32 {
	if ud.Spec.UpdateStrategy.ManualUpdate == nil {
		return 0
	}
	return min(max(ud.Spec.UpdateStrategy.ManualUpdate.Partitions[subset], 0), int32(replicas))
}
