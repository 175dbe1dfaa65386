package validation

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// PodTemplate checks the template of a workload whose Pods run for ever: restartPolicy Always, no
// activeDeadlineSeconds. claims are the names of volumeClaimTemplates; each counts as a volume of that name.
func PodTemplate(template *corev1.PodTemplateSpec, claims []string, path *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabels(template.Labels, path.Child("labels"))
	errs = append(errs, apivalidation.ValidateAnnotations(template.Annotations, path.Child("annotations"))...)
	path = path.Child("spec")
	spec := &template.Spec
	volumes, volumeErrs := checkVolumes(spec.Volumes, path.Child("volumes"))
	errs = append(errs, volumeErrs...)
	v := podChecker{volumes: volumes.Insert(claims...), hostNetwork: spec.HostNetwork, names: sets.New[string]()}
	errs = append(errs, v.containers(spec, path)...)
	errs = append(errs, checkPolicies(spec, path)...)
	errs = append(errs, checkNames(spec, path)...)
	return append(errs, checkScheduling(spec, path)...)
}

// checkPolicies covers fields with a closed set of values and those a long-running Pod must not set.
func checkPolicies(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	errs := oneOf(spec.RestartPolicy, path.Child("restartPolicy"), corev1.RestartPolicyAlways)
	errs = append(errs, oneOf(spec.DNSPolicy, path.Child("dnsPolicy"),
		corev1.DNSClusterFirst, corev1.DNSClusterFirstWithHostNet, corev1.DNSDefault, corev1.DNSNone)...)
	if spec.DNSPolicy == corev1.DNSNone && (spec.DNSConfig == nil || len(spec.DNSConfig.Nameservers) == 0) {
		errs = append(errs, field.Required(path.Child("dnsConfig", "nameservers"), "dnsPolicy None needs a nameserver"))
	}
	if spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(path.Child("activeDeadlineSeconds"), "Pods of this kind have no deadline"))
	}
	if grace := spec.TerminationGracePeriodSeconds; grace != nil && *grace < 0 {
		errs = append(errs, field.Invalid(path.Child("terminationGracePeriodSeconds"), *grace, atLeastZero))
	}
	if len(spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(path.Child("ephemeralContainers"), "not allowed in a template"))
	}
	return errs
}

// checkNames covers fields that name other objects.
func checkNames(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	check := func(name, value string, rule func(string) []string) {
		if value == "" {
			return
		}
		for _, msg := range rule(value) {
			errs = append(errs, field.Invalid(path.Child(name), value, msg))
		}
	}
	check("serviceAccountName", spec.ServiceAccountName, validation.IsDNS1123Subdomain)
	check("priorityClassName", spec.PriorityClassName, validation.IsDNS1123Subdomain)
	check("nodeName", spec.NodeName, validation.IsDNS1123Subdomain)
	check("hostname", spec.Hostname, validation.IsDNS1123Label)
	check("subdomain", spec.Subdomain, validation.IsDNS1123Label)
	if spec.RuntimeClassName != nil {
		check("runtimeClassName", *spec.RuntimeClassName, validation.IsDNS1123Subdomain)
	}
	for i, gate := range spec.ReadinessGates {
		for _, msg := range validation.IsQualifiedName(string(gate.ConditionType)) {
			errs = append(errs, field.Invalid(path.Child("readinessGates").Index(i).Child("conditionType"),
				gate.ConditionType, msg))
		}
	}
	return errs
}

func checkScheduling(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabels(spec.NodeSelector, path.Child("nodeSelector"))
	for i, toleration := range spec.Tolerations {
		errs = append(errs, checkToleration(toleration, path.Child("tolerations").Index(i))...)
	}
	for i, spread := range spec.TopologySpreadConstraints {
		at := path.Child("topologySpreadConstraints").Index(i)
		if spread.MaxSkew < 1 {
			errs = append(errs, field.Invalid(at.Child("maxSkew"), spread.MaxSkew, "must be at least 1"))
		}
		if spread.TopologyKey == "" {
			errs = append(errs, field.Required(at.Child("topologyKey"), "name a label of nodes"))
		}
		errs = append(errs, oneOf(spread.WhenUnsatisfiable, at.Child("whenUnsatisfiable"),
			corev1.DoNotSchedule, corev1.ScheduleAnyway)...)
		if spread.WhenUnsatisfiable == "" {
			errs = append(errs, field.Required(at.Child("whenUnsatisfiable"), "DoNotSchedule or ScheduleAnyway"))
		}
		errs = append(errs, metav1validation.ValidateLabelSelector(spread.LabelSelector,
			metav1validation.LabelSelectorValidationOptions{}, at.Child("labelSelector"))...)
	}
	return errs
}

func checkToleration(toleration corev1.Toleration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if toleration.Key != "" {
		errs = append(errs, metav1validation.ValidateLabelName(toleration.Key, path.Child("key"))...)
	} else if toleration.Operator != corev1.TolerationOpExists {
		errs = append(errs, field.Invalid(path.Child("operator"), toleration.Operator,
			"must be Exists when key is empty, which means all keys and values"))
	}
	if toleration.Operator == corev1.TolerationOpExists && toleration.Value != "" {
		errs = append(errs, field.Invalid(path.Child("value"), toleration.Value, "must be empty when operator is Exists"))
	}
	if toleration.TolerationSeconds != nil && toleration.Effect != corev1.TaintEffectNoExecute {
		errs = append(errs, field.Invalid(path.Child("effect"), toleration.Effect,
			"must be NoExecute when tolerationSeconds is set"))
	}
	errs = append(errs, oneOf(toleration.Operator, path.Child("operator"), corev1.TolerationOpExists,
		corev1.TolerationOpEqual, corev1.TolerationOpLt, corev1.TolerationOpGt)...)
	return append(errs, oneOf(toleration.Effect, path.Child("effect"), corev1.TaintEffectNoSchedule,
		corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)...)
}

const atLeastZero = "must be at least 0"

// oneOf checks a field with a closed set of values. Empty is fine: it stands for a default.
func oneOf[T ~string](value T, path *field.Path, allowed ...T) field.ErrorList {
	if value == "" {
		return nil
	}
	if slices.Contains(allowed, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, allowed)}
}
