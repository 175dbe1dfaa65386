package probes

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
)

// ValidateSpec returns all errors in the spec of a PodProbeMarker.
func ValidateSpec(obj *v1alpha1.PodProbeMarker) (errs field.ErrorList) {
	path := field.NewPath("spec")
	if s, at := obj.Spec.Selector, path.Child("selector"); s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		errs = append(errs, field.Required(at, "an empty selector would select no Pod"))
	} else if tooMany := validation.NotTooMany(apps.SelectorTerms(s), at); len(tooMany) > 0 {
		errs = append(errs, tooMany...)
	} else {
		errs = append(errs, validation.LabelSelector(s, at)...)
	}
	if len(obj.Spec.Probes) == 0 {
		errs = append(errs, field.Required(path.Child("probes"), ""))
	}
	names, conditions := map[string]bool{}, map[string]bool{}
	for i := range obj.Spec.Probes {
		p, at := &obj.Spec.Probes[i], path.Child("probes").Index(i)
		errs = append(errs, validateProbe(p, at)...)
		if names[p.Name] && p.Name != "" {
			errs = append(errs, field.Duplicate(at.Child("name"), p.Name))
		}
		if conditions[p.PodConditionType] && p.PodConditionType != "" {
			errs = append(errs, field.Duplicate(at.Child("podConditionType"), p.PodConditionType))
		}
		names[p.Name], conditions[p.PodConditionType] = true, true
	}
	return errs
}

func validateProbe(p *v1alpha1.PodContainerProbe, path *field.Path) (errs field.ErrorList) {
	switch {
	case p.Name == "":
		errs = append(errs, field.Required(path.Child("name"), ""))
	case strings.Contains(p.Name, "#"):
		errs = append(errs, field.Invalid(path.Child("name"), p.Name, `must not contain "#"`))
	case isBuiltIn(p.Name):
		errs = append(errs, field.Invalid(path.Child("name"), p.Name, "is the name of a condition with another use"))
	}
	if p.ContainerName == "" {
		errs = append(errs, field.Required(path.Child("containerName"), ""))
	}
	errs = append(errs, validateHandler(&p.Probe.Probe, path.Child("probe"))...)
	errs = append(errs, validateNumbers(&p.Probe.Probe, path.Child("probe"))...)
	at := path.Child("podConditionType")
	switch {
	case isBuiltIn(p.PodConditionType):
		errs = append(errs, field.Invalid(at, p.PodConditionType, "is a condition with another use"))
	case p.PodConditionType != "":
		errs = append(errs, metav1.ValidateLabelName(p.PodConditionType, at)...)
	case len(p.MarkerPolicy) == 0:
		errs = append(errs, field.Required(at, "without it and without markerPolicy, the probe has no effect"))
	}
	return append(errs, validatePolicies(p.MarkerPolicy, path.Child("markerPolicy"))...)
}

// isBuiltIn reports whether a condition has a use in Kubernetes or in another controller of this project.
func isBuiltIn(name string) bool {
	switch corev1.PodConditionType(name) {
	case corev1.PodScheduled, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.DisruptionTarget,
		corev1.PodReadyToStartContainers, corev1.PodResizePending, corev1.PodResizeInProgress,
		apps.ConditionKruisePodReady, apps.ConditionInPlaceUpdateReady:
		return true
	}
	return false
}

// validateHandler returns the errors in the handler of a probe. Unlike OpenKruise, gRPC is accepted.
func validateHandler(p *corev1.Probe, path *field.Path) (errs field.ErrorList) {
	handlers := 0
	if p.Exec != nil {
		if handlers++; len(p.Exec.Command) == 0 {
			errs = append(errs, field.Required(path.Child("exec", "command"), ""))
		}
	}
	if get, at := p.HTTPGet, path.Child("httpGet"); get != nil {
		handlers++
		errs = append(errs, validatePort(get.Port, at.Child("port"))...)
		errs = append(errs, noHost(get.Host, at.Child("host"))...)
		if get.Path == "" {
			errs = append(errs, field.Required(at.Child("path"), ""))
		}
		if get.Scheme != corev1.URISchemeHTTP && get.Scheme != corev1.URISchemeHTTPS {
			errs = append(errs, field.NotSupported(at.Child("scheme"), get.Scheme, []corev1.URIScheme{corev1.URISchemeHTTP, corev1.URISchemeHTTPS}))
		}
		for i, header := range get.HTTPHeaders {
			for _, why := range utilvalidation.IsHTTPHeaderName(header.Name) {
				errs = append(errs, field.Invalid(at.Child("httpHeaders").Index(i).Child("name"), header.Name, why))
			}
		}
	}
	if connect, at := p.TCPSocket, path.Child("tcpSocket"); connect != nil {
		handlers++
		errs = append(errs, validatePort(connect.Port, at.Child("port"))...)
		errs = append(errs, noHost(connect.Host, at.Child("host"))...)
	}
	if p.GRPC != nil {
		handlers++
		errs = append(errs, validatePort(intstr.FromInt32(p.GRPC.Port), path.Child("grpc", "port"))...)
	}
	if handlers != 1 {
		errs = append(errs, field.Invalid(path, fmt.Sprintf("%d handlers", handlers), "must have exactly one of exec, httpGet, tcpSocket and grpc"))
	}
	return errs
}

// noHost refuses hosts, because the agent would send requests from the network of the Node.
func noHost(host string, path *field.Path) field.ErrorList {
	if host == "" {
		return nil
	}
	return field.ErrorList{field.Forbidden(path, "must be empty: probes reach the Pod alone")}
}

func validatePort(port intstr.IntOrString, path *field.Path) (errs field.ErrorList) {
	why := utilvalidation.IsValidPortName(port.StrVal)
	if port.Type == intstr.Int {
		why = utilvalidation.IsValidPortNum(int(port.IntVal))
	}
	for _, text := range why {
		errs = append(errs, field.Invalid(path, port.String(), text))
	}
	return errs
}

func validateNumbers(p *corev1.Probe, path *field.Path) (errs field.ErrorList) {
	for _, n := range []struct {
		name  string
		value int32
	}{
		{"initialDelaySeconds", p.InitialDelaySeconds},
		{"timeoutSeconds", p.TimeoutSeconds},
		{"periodSeconds", p.PeriodSeconds},
		{"successThreshold", p.SuccessThreshold},
		{"failureThreshold", p.FailureThreshold},
	} {
		errs = append(errs, apivalidation.ValidateNonnegativeField(int64(n.value), path.Child(n.name))...)
	}
	return errs
}

func validatePolicies(policies []v1alpha1.ProbeMarkerPolicy, path *field.Path) (errs field.ErrorList) {
	seen := map[v1alpha1.ProbeState]bool{}
	for i, policy := range policies {
		at := path.Index(i)
		if policy.State != v1alpha1.ProbeSucceeded && policy.State != v1alpha1.ProbeFailed {
			errs = append(errs, field.NotSupported(at.Child("state"), policy.State, []v1alpha1.ProbeState{v1alpha1.ProbeSucceeded, v1alpha1.ProbeFailed}))
		} else if seen[policy.State] {
			errs = append(errs, field.Duplicate(at.Child("state"), policy.State))
		}
		seen[policy.State] = true
		if len(policy.Labels)+len(policy.Annotations) == 0 {
			errs = append(errs, field.Required(at, "needs labels or annotations"))
		}
		errs = append(errs, metav1.ValidateLabels(policy.Labels, at.Child("labels"))...)
		errs = append(errs, apivalidation.ValidateAnnotations(policy.Annotations, at.Child("annotations"))...)
		for _, key := range []string{apps.AnnotationProbeMarks, apps.AnnotationPodProbeMarkerList} {
			if _, set := policy.Annotations[key]; set {
				errs = append(errs, field.Forbidden(at.Child("annotations").Key(key), "has another use"))
			}
		}
	}
	return errs
}
