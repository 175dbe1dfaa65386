package statefulset

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/statefulset"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/examples/kruise/judge"
	"github.com/workloadkit/workloadkit/examples/kruise/predownload"
	"github.com/workloadkit/workloadkit/examples/kruise/restart"
	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podorder"
	"github.com/workloadkit/workloadkit/pvc"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout"
	"github.com/workloadkit/workloadkit/rollout/numbered"
	"github.com/workloadkit/workloadkit/rollout/partition"
)

// settings are the values of a StatefulSet's spec, with all defaults set, and with percentages and selectors resolved.
type settings struct {
	selector     labels.Selector
	rollout      numbered.Spec
	priority     podorder.Priority
	minReady     time.Duration
	historyLimit int

	// In claims, the functions that look up objects and the owner are not set. grows is true if existing claims are
	// enlarged when the size in their templates is raised.
	claims     pvc.Numbered
	grows      bool
	indexLabel bool
	restart    *restart.Wish // nil means that no restart is requested
	download   predownload.Settings

	// warnings are invalid values that OpenKruise accepts. The controller interprets these values as OpenKruise does.
	warnings reason.List
}

// rules returns the rules in the StatefulSet's spec for updating its Pods.
func rules(set *v1beta1.StatefulSet) podcontrol.Rules {
	ru := ptr.Deref(set.Spec.UpdateStrategy.RollingUpdate, v1beta1.RollingUpdateStatefulSet{})
	return kruise.Rules(string(ru.PodUpdatePolicy), set.Spec.Lifecycle, ru.InPlaceUpdateStrategy)
}

const rollingUpdate = "spec.updateStrategy.rollingUpdate"

// resolve parses and validates the spec, with or without defaults. Problems are values with which no controller can
// work; the settings must then not be used. Warnings are values that the controller can use, but that are probably a
// mistake. An example is a maxUnavailable of 0, which counts as 1.
//
// Lists that are too long are not checked, because the check would take too long. The order of the errors depends only
// on the object, so that a condition with the errors does not change when nothing has changed.
func resolve(set *v1beta1.StatefulSet, gates map[apps.Gate]bool) (s *settings, problems, warnings judge.Faults) {
	if left := judge.Undecodable(set.Spec.Undecodable); left != nil {
		return nil, left, nil // further checks would only report missing values
	}
	read, spec := &judge.Reading{}, &set.Spec
	parallel := spec.PodManagementPolicy == appsv1.ParallelPodManagement
	s = &settings{
		indexLabel: gates[apps.GatePodIndexLabel],
		grows: gates[apps.GateStatefulSetAutoResizePVC] &&
			spec.VolumeClaimUpdateStrategy.Type == v1beta1.ClaimsOnPodRollingUpdate &&
			len(spec.VolumeClaimTemplates) > 0,
		rollout: numbered.Spec{
			Wanted: wanted(read, set, gates[apps.GateStatefulSetStartOrdinal]), Parallel: parallel, UnlimitedRepair: true,
			Paths: rollout.Paths{
				Partition: rollingUpdate + ".partition", MaxUnavailable: rollingUpdate + ".maxUnavailable",
				ScaleMaxUnavailable: "spec.scaleStrategy.maxUnavailable", Parallel: "spec.podManagementPolicy",
			},
		},
	}
	s.selector = read.Pods("spec", spec.Selector, spec.Template.Labels, apps.ReservedStatefulSetLabels())
	judge.OneOf(read, "spec.podManagementPolicy", spec.PodManagementPolicy, appsv1.OrderedReadyPodManagement,
		appsv1.ParallelPodManagement)
	s.historyLimit = read.OrZero("spec.revisionHistoryLimit", ptr.Deref(spec.RevisionHistoryLimit,
		api.DefaultRevisionHistoryLimit))
	read.Template("spec.template", &spec.Template, apps.ReservedStatefulSetLabels())
	if spec.ServiceName != "" {
		for _, why := range utilvalidation.IsDNS1123Label(spec.ServiceName) {
			read.Warn(field.Invalid(field.NewPath("spec", "serviceName"), spec.ServiceName, why))
		}
	}
	replicas := int(max(replicasOf(set), 0))
	if scale := spec.ScaleStrategy; scale != nil && scale.MaxUnavailable != nil {
		limit := readLimit(read, s.rollout.Paths.ScaleMaxUnavailable, scale.MaxUnavailable, replicas, parallel)
		if parallel {
			s.rollout.ScaleMaxUnavailable = &limit
		}
	}
	// If scaling has no limit, unwanted Pods are deleted at once.
	s.rollout.UnlimitedScaleIn = s.rollout.ScaleMaxUnavailable == nil
	s.claims = readClaims(read, set, gates)
	s.readStrategy(read, spec, replicas)
	s.restart = restart.Read(read, set.Annotations)
	s.download = predownload.Read(read, set.Annotations, ptr.Deref(spec.UpdateStrategy.RollingUpdate, v1beta1.RollingUpdateStatefulSet{}).InPlaceUpdateStrategy)
	if start := ptr.Deref(spec.Ordinals, appsv1.StatefulSetOrdinals{}).Start; start != 0 &&
		!gates[apps.GateStatefulSetStartOrdinal] {
		read.Ungated("spec.ordinals.start", strconv.Itoa(int(start)), apps.GateStatefulSetStartOrdinal)
	}
	s.warnings = read.Warnings.Reasons()
	return s, read.Problems, read.Warnings
}

func replicasOf(set *v1beta1.StatefulSet) int32 {
	return ptr.Deref(set.Spec.Replicas, api.DefaultReplicas)
}

// wanted computes the set of wanted ordinals, and checks that there are enough ordinals for all replicas. The start
// ordinal is checked even if its gate is off, because fewer ordinals remain above a start ordinal.
func wanted(read *judge.Reading, set *v1beta1.StatefulSet, fromStart bool) ordinals.Set {
	if n := len(set.Spec.ReserveOrdinals); n > api.MaxReserved {
		read.Replicas("spec.replicas", replicasOf(set))
		read.Refuse(field.TooMany(field.NewPath("spec", "reserveOrdinals"), n, api.MaxReserved))
		return ordinals.Set{}
	}
	numbers, err := api.Ordinals(set, true)
	for _, why := range reason.From(err) {
		read.Refuse(field.Invalid(field.NewPath(why.Path), number(why.New), why.Detail+"; "+why.Remedy))
	}
	if err == nil && !fromStart {
		numbers, _ = api.Ordinals(set, false)
	}
	return numbers
}

// number returns an ordinal, which users may write as an integer or a text, in the form in which an error shows the
// value.
func number(value string) any {
	written := judge.Written(value)
	if text, ok := written.(string); ok {
		if n, err := strconv.Atoi(text); err == nil {
			return n
		}
	}
	return written
}

// readClaims reads the claim templates, and when claims are deleted. A case of the retention policy that is not set
// means Retain.
func readClaims(read *judge.Reading, set *v1beta1.StatefulSet, gates map[apps.Gate]bool) pvc.Numbered {
	const retain, remove = appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	spec := &set.Spec
	claims := pvc.Numbered{Templates: spec.VolumeClaimTemplates, Namespace: set.Namespace}
	if spec.Selector != nil {
		claims.Labels = spec.Selector.MatchLabels
	}
	read.Warn(validation.ClaimNames(spec.VolumeClaimTemplates, field.NewPath("spec", "volumeClaimTemplates"))...)
	updates := []v1beta1.VolumeClaimUpdateStrategyType{v1beta1.ClaimsOnDelete, v1beta1.ClaimsOnPodRollingUpdate}
	switch update, path := spec.VolumeClaimUpdateStrategy.Type, "spec.volumeClaimUpdateStrategy.type"; {
	case update != "" && !slices.Contains(updates, update):
		read.Warn(field.NotSupported(field.NewPath(path), update, updates))
	case update == v1beta1.ClaimsOnPodRollingUpdate && !gates[apps.GateStatefulSetAutoResizePVC]:
		read.Ungated(path, string(update), apps.GateStatefulSetAutoResizePVC)
	}
	policy := ptr.Deref(spec.PersistentVolumeClaimRetentionPolicy,
		appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: retain, WhenScaled: retain})
	const path = "spec.persistentVolumeClaimRetentionPolicy"
	for _, of := range []struct {
		path  string
		value appsv1.PersistentVolumeClaimRetentionPolicyType
	}{{path + ".whenDeleted", policy.WhenDeleted}, {path + ".whenScaled", policy.WhenScaled}} {
		judge.OneOf(read, of.path, of.value, retain, remove)
		if of.value == "" {
			read.Warn(field.NotSupported(field.NewPath(of.path), of.value,
				[]appsv1.PersistentVolumeClaimRetentionPolicyType{retain, remove}))
		}
	}
	onDeletion, onScale := policy.WhenDeleted == remove, policy.WhenScaled == remove
	if gates[apps.GateStatefulSetAutoDeletePVC] {
		claims.Retention = &pvc.Retention{WithOwner: onDeletion, WithPod: onScale}
	} else if onDeletion || onScale {
		read.Ungated(path, string(remove), apps.GateStatefulSetAutoDeletePVC)
	}
	return claims
}

// readLimit reads how many Pods may be unavailable at the same time, at least one. With OrderedReady, a limit above one
// has no effect.
func readLimit(read *judge.Reading, path string, value *intstr.IntOrString, replicas int, parallel bool) int {
	switch at := field.NewPath(path); {
	case len(validation.Count(value, at)) > 0: // Count has already returned an error for the value
	case !parallel && *value != intstr.FromInt32(1):
		read.Warn(field.Invalid(at, value.String(),
			"must be 1 with podManagementPolicy OrderedReady, which handles one Pod at a time"))
	case validation.IsNone(value):
		read.Warn(field.Invalid(at, value.String(), "must be more than 0"))
	}
	return max(read.Count(path, value, replicas, partition.Down), 1)
}

// readStrategy parses the update strategy. OnDelete has no settings.
func (s *settings) readStrategy(read *judge.Reading, spec *v1beta1.StatefulSetSpec, replicas int) {
	const path, rolls, onDelete = "spec.updateStrategy.type", appsv1.RollingUpdateStatefulSetStrategyType, appsv1.OnDeleteStatefulSetStrategyType
	kind, isSet := spec.UpdateStrategy.Type, spec.UpdateStrategy.RollingUpdate != nil
	judge.OneOf(read, path, kind, rolls, onDelete)
	switch {
	case kind == "":
		read.Absent(field.Required(field.NewPath(path), "use RollingUpdate or OnDelete"))
	case kind == rolls && !isSet:
		read.Absent(field.Required(field.NewPath(rollingUpdate), "type RollingUpdate needs it"))
	case kind == onDelete && isSet:
		read.Warn(field.Forbidden(field.NewPath(rollingUpdate), "OnDelete has no settings; use null to remove it"))
	}
	ru, plan := ptr.Deref(spec.UpdateStrategy.RollingUpdate, v1beta1.RollingUpdateStatefulSet{}), &s.rollout
	judge.OneOf(read, rollingUpdate+".podUpdatePolicy", ru.PodUpdatePolicy, v1beta1.ReCreate,
		v1beta1.InPlaceIfPossible, v1beta1.InPlaceOnly)
	plan.OnDelete, plan.Paused = kind == onDelete, ru.Paused
	plan.Partition = read.Replicas(plan.Paths.Partition, ptr.Deref(ru.Partition, 0))
	unavailable := cmp.Or(ru.MaxUnavailable, new(intstr.FromInt32(api.DefaultMaxUnavailable)))
	plan.MaxUnavailable = readLimit(read, plan.Paths.MaxUnavailable, unavailable, replicas, plan.Parallel)
	needsReadinessGate(read, ru.PodUpdatePolicy, &spec.Template)
	if ru.UnorderedUpdate != nil {
		const path = rollingUpdate + ".unorderedUpdate"
		priority, _ := read.Order(path, ru.UnorderedUpdate.PriorityStrategy, nil)
		if plan.Unordered = plan.Parallel; plan.Unordered {
			s.priority = priority
		} else {
			read.Warn(field.Forbidden(field.NewPath(path), "needs podManagementPolicy Parallel"))
		}
	}
	s.minReady = readMinReady(read, ptr.Deref(ru.MinReadySeconds, 0))
	read.InPlace(rollingUpdate+".inPlaceUpdateStrategy", ru.InPlaceUpdateStrategy)
}

func readMinReady(read *judge.Reading, seconds int32) time.Duration {
	path := field.NewPath(rollingUpdate, "minReadySeconds")
	if err := field.Invalid(path, seconds, fmt.Sprintf("must be from 0 to %d", api.MaxMinReadySeconds)); seconds < 0 {
		read.Misread(err, "0", "use 0 or more")
	} else if seconds > api.MaxMinReadySeconds {
		read.Warn(err)
	}
	return time.Duration(max(seconds, 0)) * time.Second
}

// needsReadinessGate warns if updates in place could make Pods unready, and the template has no readiness gate to show
// this.
func needsReadinessGate(read *judge.Reading, policy v1beta1.PodUpdatePolicy, template *corev1.PodTemplateSpec) {
	gate := corev1.PodReadinessGate{ConditionType: apps.ConditionInPlaceUpdateReady}
	inPlace := policy == v1beta1.InPlaceIfPossible || policy == v1beta1.InPlaceOnly
	if inPlace && !slices.Contains(template.Spec.ReadinessGates, gate) {
		read.Warn(field.Required(field.NewPath("spec", "template", "spec", "readinessGates"), fmt.Sprintf(
			"must have conditionType %s for podUpdatePolicy %s", gate.ConditionType, policy)))
	}
}
