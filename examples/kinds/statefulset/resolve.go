package statefulset

import (
	"cmp"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/statefulset"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/partition"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podorder"
	"github.com/workloadkit/workloadkit/pvc"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout"
)

// settings are a StatefulSet's spec with every default filled in and every percentage and selector resolved.
type settings struct {
	selector     labels.Selector
	rollout      rollout.NumberedSpec
	priority     podorder.Priority
	minReady     time.Duration
	historyLimit int

	// claims lack their lookup functions and their owner. grows is true if claims follow larger templates.
	claims     pvc.Numbered
	grows      bool
	indexLabel bool

	// warnings are values silently accepted by OpenKruise. The controller reads warnings as OpenKruise did.
	warnings reason.List
}

// rules are the StatefulSet's rules for its Pods.
func rules(set *v1beta1.StatefulSet) podcontrol.Rules {
	ru := ptr.Deref(set.Spec.UpdateStrategy.RollingUpdate, v1beta1.RollingUpdateStatefulSet{})
	return kruise.Rules(string(ru.PodUpdatePolicy), set.Spec.Lifecycle, ru.InPlaceUpdateStrategy)
}

// resolve reads the spec. If some values are unusable, resolve returns the unusable values instead.
func resolve(set *v1beta1.StatefulSet, gates map[apps.Gate]bool) (*settings, reason.List) {
	if problems := decode.Reasons(set.Spec.Undecodable); problems != nil {
		return nil, problems // the rest would only complain of missing values
	}
	if refused := api.Unusable(set); len(refused) > 0 {
		return nil, kruise.Refused(refused)
	}
	const path = "spec.updateStrategy.rollingUpdate"
	read, spec := &kruise.Reading{}, &set.Spec
	ru := ptr.Deref(spec.UpdateStrategy.RollingUpdate, v1beta1.RollingUpdateStatefulSet{})
	s := &settings{
		selector:     read.Selector("spec.selector", spec.Selector),
		minReady:     time.Duration(read.OrZero(path+".minReadySeconds", ptr.Deref(ru.MinReadySeconds, 0))) * time.Second,
		historyLimit: read.OrZero("spec.revisionHistoryLimit", ptr.Deref(spec.RevisionHistoryLimit, api.DefaultRevisionHistoryLimit)),
		indexLabel:   gates[apps.GatePodIndexLabel],
		grows: gates[apps.GateStatefulSetAutoResizePVC] && spec.VolumeClaimUpdateStrategy.Type == v1beta1.ClaimsOnPodRollingUpdate &&
			len(spec.VolumeClaimTemplates) > 0,
	}
	read.OrZero(path+".inPlaceUpdateStrategy.gracePeriodSeconds", ptr.Deref(ru.InPlaceUpdateStrategy, pub.InPlaceUpdateStrategy{}).GracePeriodSeconds)
	s.claims = pvc.Numbered{Templates: spec.VolumeClaimTemplates, Namespace: set.Namespace, Labels: spec.Selector.MatchLabels}
	if gates[apps.GateStatefulSetAutoDeletePVC] {
		const remove = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
		policy := ptr.Deref(spec.PersistentVolumeClaimRetentionPolicy, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
		s.claims.Retention = &pvc.Retention{WithOwner: policy.WhenDeleted == remove, WithPod: policy.WhenScaled == remove}
	}
	parallel := spec.PodManagementPolicy == appsv1.ParallelPodManagement
	unordered := parallel && ru.UnorderedUpdate != nil
	if unordered {
		s.priority, _ = read.Order(path+".unorderedUpdate", ru.UnorderedUpdate.PriorityStrategy, nil)
	}
	replicas := int(ptr.Deref(spec.Replicas, api.DefaultReplicas))
	numbers, _ := api.Ordinals(set, gates[apps.GateStatefulSetStartOrdinal])
	s.rollout = rollout.NumberedSpec{
		Wanted:    numbers,
		Partition: read.OrZero(path+".partition", ptr.Deref(ru.Partition, 0)),
		Parallel:  parallel, Unordered: unordered,
		Paused: ru.Paused, OnDelete: spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType,
		UnlimitedRepair: true,
		Paths: rollout.Paths{
			Partition: path + ".partition", MaxUnavailable: path + ".maxUnavailable", ScaleMaxUnavailable: "spec.scaleStrategy.maxUnavailable",
			Parallel: "spec.podManagementPolicy",
		},
	}
	limit := func(path string, value *intstr.IntOrString) int {
		return max(read.Count(path, value, replicas, partition.Down), 1)
	}
	s.rollout.MaxUnavailable = limit(s.rollout.Paths.MaxUnavailable, cmp.Or(ru.MaxUnavailable, new(intstr.FromInt32(1))))
	if scale := spec.ScaleStrategy; scale != nil && scale.MaxUnavailable != nil && parallel {
		s.rollout.ScaleMaxUnavailable = new(limit(s.rollout.Paths.ScaleMaxUnavailable, scale.MaxUnavailable))
	}
	// Without a limit on scaling, unwanted Pods go at once.
	s.rollout.UnlimitedScaleIn = s.rollout.ScaleMaxUnavailable == nil
	warnUngated(read, spec, gates)
	s.warnings = read.Warnings.Reasons()
	return s, read.Problems.Reasons()
}

// warnUngated warns of fields whose gates are off.
func warnUngated(read *kruise.Reading, spec *v1beta1.StatefulSetSpec, gates map[apps.Gate]bool) {
	if start := ptr.Deref(spec.Ordinals, appsv1.StatefulSetOrdinals{}).Start; start != 0 && !gates[apps.GateStatefulSetStartOrdinal] {
		read.Ungated("spec.ordinals.start", strconv.Itoa(int(start)), apps.GateStatefulSetStartOrdinal)
	}
	if spec.VolumeClaimUpdateStrategy.Type == v1beta1.ClaimsOnPodRollingUpdate && !gates[apps.GateStatefulSetAutoResizePVC] {
		read.Ungated("spec.volumeClaimUpdateStrategy.type", string(v1beta1.ClaimsOnPodRollingUpdate), apps.GateStatefulSetAutoResizePVC)
	}
	const remove = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	if policy := spec.PersistentVolumeClaimRetentionPolicy; policy != nil && (policy.WhenDeleted == remove || policy.WhenScaled == remove) && !gates[apps.GateStatefulSetAutoDeletePVC] {
		read.Ungated("spec.persistentVolumeClaimRetentionPolicy", string(remove), apps.GateStatefulSetAutoDeletePVC)
	}
}
