package nodefit

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/workloadkit/workloadkit/reason"
)

// InvalidToleration means that a toleration tolerates nothing, because its operator is unknown, or compares numbers and
// the value is no integer.
const InvalidToleration reason.Code = "InvalidToleration"

// DaemonSetTolerations returns the tolerations that Kubernetes adds to the Pods of a DaemonSet. Such Pods stay on
// Nodes that are not ready or cannot be reached, and start on cordoned Nodes and on Nodes that lack disk, memory or
// process ids. Pods with the host's network also start on Nodes without a network.
func DaemonSetTolerations(hostNetwork bool) []corev1.Toleration {
	exists := func(key string, effect corev1.TaintEffect) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect}
	}
	all := []corev1.Toleration{
		exists(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute),
		exists(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute),
		exists(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule),
		exists(corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule),
		exists(corev1.TaintNodePIDPressure, corev1.TaintEffectNoSchedule),
		exists(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule),
	}
	if hostNetwork {
		all = append(all, exists(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule))
	}
	return all
}

// HealthTolerations returns tolerations of the taints that Kubernetes adds to an unhealthy Node: a Node that is not
// ready, is unreachable, has no network, or lacks disk, memory or process ids. Such taints are often removed within
// seconds. Pass HealthTolerations to New to find out which running Pods may stay on their Nodes despite such taints.
// If the problem lasts, Kubernetes itself evicts Pods without the toleration.
func HealthTolerations() (all []corev1.Toleration) {
	for _, key := range []string{
		corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeNetworkUnavailable,
		corev1.TaintNodeDiskPressure, corev1.TaintNodeMemoryPressure, corev1.TaintNodePIDPressure,
	} {
		all = append(all, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
	}
	return all
}

// Tolerate adds tolerations to a Pod's spec. A new toleration replaces a toleration that differs only in
// tolerationSeconds.
func Tolerate(spec *corev1.PodSpec, tolerations ...corev1.Toleration) {
	spec.Tolerations = merged(spec.Tolerations, tolerations)
}

// merged returns a new slice, or the given slice if there is nothing to add.
func merged(have, add []corev1.Toleration) []corev1.Toleration {
	if len(add) == 0 {
		return have
	}
	out := slices.Clone(have)
	for _, t := range add {
		replaced := false
		for i := range out {
			if t.MatchToleration(&out[i]) {
				out[i], replaced = t, true
			}
		}
		if !replaced {
			out = append(out, t)
		}
	}
	return out
}

// toleration is a compiled toleration; number is the value if the operator compares numbers.
type toleration struct {
	key, value string
	effect     corev1.TaintEffect
	operator   corev1.TolerationOperator
	number     int64
}

// never is the operator of an invalid toleration.
const never corev1.TolerationOperator = "never"

func compileToleration(from corev1.Toleration, path string) (toleration, reason.List) {
	t := toleration{key: from.Key, value: from.Value, effect: from.Effect, operator: from.Operator}
	var problem reason.Reason
	switch from.Operator {
	case "", corev1.TolerationOpEqual:
		t.operator = corev1.TolerationOpEqual
		return t, nil
	case corev1.TolerationOpExists:
		return t, nil
	case corev1.TolerationOpLt, corev1.TolerationOpGt:
		number, ok := integer(from.Value)
		if ok {
			t.number = number
			return t, nil
		}
		problem = reason.Reason{
			Code: InvalidToleration, Path: path + ".value", New: reason.Shorten(from.Value, maxText),
			Remedy: "compare with an integer of 64 bits, without leading zeros",
		}
	default:
		problem = reason.Reason{
			Code: InvalidToleration, Path: path + ".operator", New: reason.Shorten(string(from.Operator), maxText), Remedy: "use Exists, Equal, Lt or Gt",
		}
	}
	t.operator = never
	return t, reason.List{problem}
}

// integer parses the value of a taint, or of a toleration that compares numbers.
func integer(value string) (int64, bool) {
	if len(content.IsDecimalInteger(value)) > 0 {
		return 0, false
	}
	number, err := strconv.ParseInt(value, 10, 64)
	return number, err == nil
}

func tolerated(by []toleration, taint *corev1.Taint) bool {
	for i := range by {
		if by[i].tolerates(taint) {
			return true
		}
	}
	return false
}

func (t *toleration) tolerates(taint *corev1.Taint) bool {
	if t.effect != "" && t.effect != taint.Effect || t.key != "" && t.key != taint.Key {
		return false
	}
	switch t.operator {
	case corev1.TolerationOpEqual:
		return t.value == taint.Value
	case corev1.TolerationOpExists:
		return true
	case corev1.TolerationOpLt:
		number, ok := integer(taint.Value)
		return ok && number < t.number
	case corev1.TolerationOpGt:
		number, ok := integer(taint.Value)
		return ok && number > t.number
	}
	return false
}
