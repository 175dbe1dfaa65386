package validation

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// podChecker carries what the checks of one container need to know about its Pod.
type podChecker struct {
	volumes     sets.Set[string]
	names       sets.Set[string]
	hostNetwork bool
}

func (v *podChecker) containers(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(spec.Containers) == 0 {
		errs = append(errs, field.Required(path.Child("containers"), "at least one container"))
	}
	hostPorts := sets.New[hostPort]()
	for i := range spec.Containers {
		at := path.Child("containers").Index(i)
		errs = append(errs, v.container(&spec.Containers[i], at)...)
		errs = append(errs, v.ports(&spec.Containers[i], hostPorts, at.Child("ports"))...)
	}
	for i := range spec.InitContainers {
		c, at := &spec.InitContainers[i], path.Child("initContainers").Index(i)
		errs = append(errs, v.container(c, at)...)
		// Init containers run one by one, so only the ports of the same one can clash. The API server sees it the same
		// way for those that stay.
		errs = append(errs, v.ports(c, sets.New[hostPort](), at.Child("ports"))...)
		if c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways {
			errs = append(errs, noHooks(c, at)...)
		}
	}
	return errs
}

// noHooks refuses what an init container that runs to completion cannot have.
func noHooks(c *corev1.Container, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	refuse := func(name string, set bool) {
		if set {
			errs = append(errs, field.Forbidden(at.Child(name), "needs an init container with restartPolicy Always"))
		}
	}
	refuse("lifecycle", c.Lifecycle != nil)
	refuse("livenessProbe", c.LivenessProbe != nil)
	refuse("readinessProbe", c.ReadinessProbe != nil)
	refuse("startupProbe", c.StartupProbe != nil)
	return errs
}

func (v *podChecker) container(c *corev1.Container, at *field.Path) field.ErrorList {
	errs := uniqueLabel(c.Name, v.names, at.Child("name"))
	switch {
	case c.Image == "":
		errs = append(errs, field.Required(at.Child("image"), ""))
	case strings.TrimSpace(c.Image) != c.Image:
		errs = append(errs, field.Invalid(at.Child("image"), c.Image, "must not begin or end with white space"))
	}
	errs = append(errs, oneOf(c.ImagePullPolicy, at.Child("imagePullPolicy"),
		corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)...)
	errs = append(errs, oneOf(c.TerminationMessagePolicy, at.Child("terminationMessagePolicy"),
		corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)...)
	errs = append(errs, checkEnv(c.Env, at.Child("env"))...)
	errs = append(errs, v.mounts(c, at)...)
	errs = append(errs, checkResources(&c.Resources, at.Child("resources"))...)
	errs = append(errs, checkProbe(c.LivenessProbe, true, at.Child("livenessProbe"))...)
	errs = append(errs, checkProbe(c.ReadinessProbe, false, at.Child("readinessProbe"))...)
	errs = append(errs, checkProbe(c.StartupProbe, true, at.Child("startupProbe"))...)
	if c.Lifecycle != nil {
		errs = append(errs, checkHook(c.Lifecycle.PostStart, at.Child("lifecycle", "postStart"))...)
		errs = append(errs, checkHook(c.Lifecycle.PreStop, at.Child("lifecycle", "preStop"))...)
	}
	return errs
}

// hostPort is what two containers of a Pod cannot both have.
type hostPort struct {
	protocol corev1.Protocol
	ip       string
	port     int32
}

func (v *podChecker) ports(c *corev1.Container, taken sets.Set[hostPort], at *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := sets.New[string]()
	for i, port := range c.Ports {
		portAt := at.Index(i)
		for _, msg := range validation.IsValidPortNum(int(port.ContainerPort)) {
			errs = append(errs, field.Invalid(portAt.Child("containerPort"), port.ContainerPort, msg))
		}
		errs = append(errs, oneOf(port.Protocol, portAt.Child("protocol"),
			corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)...)
		if port.Name != "" {
			for _, msg := range validation.IsValidPortName(port.Name) {
				errs = append(errs, field.Invalid(portAt.Child("name"), port.Name, msg))
			}
			if names.Has(port.Name) {
				errs = append(errs, field.Duplicate(portAt.Child("name"), port.Name))
			}
			names.Insert(port.Name)
		}
		if port.HostPort != 0 {
			errs = append(errs, v.hostPort(port, taken, portAt.Child("hostPort"))...)
		}
	}
	return errs
}

func (v *podChecker) hostPort(port corev1.ContainerPort, taken sets.Set[hostPort], at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range validation.IsValidPortNum(int(port.HostPort)) {
		errs = append(errs, field.Invalid(at, port.HostPort, msg))
	}
	if v.hostNetwork && port.HostPort != port.ContainerPort {
		errs = append(errs, field.Invalid(at, port.HostPort, "must equal containerPort when hostNetwork is true"))
	}
	key := hostPort{protocol: port.Protocol, ip: port.HostIP, port: port.HostPort}
	if key.protocol == "" {
		key.protocol = corev1.ProtocolTCP
	}
	if taken.Has(key) {
		errs = append(errs, field.Duplicate(at, port.HostPort))
	}
	taken.Insert(key)
	return errs
}

func checkEnv(env []corev1.EnvVar, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, e := range env {
		if e.Name == "" {
			errs = append(errs, field.Required(at.Index(i).Child("name"), ""))
		}
		for _, msg := range validation.IsRelaxedEnvVarName(e.Name) {
			if e.Name != "" {
				errs = append(errs, field.Invalid(at.Index(i).Child("name"), e.Name, msg))
			}
		}
		errs = append(errs, checkEnvSource(e, at.Index(i).Child("valueFrom"))...)
	}
	return errs
}

func checkEnvSource(e corev1.EnvVar, at *field.Path) field.ErrorList {
	from := e.ValueFrom
	if from == nil {
		return nil
	}
	n := count(from.FieldRef != nil, from.ResourceFieldRef != nil, from.ConfigMapKeyRef != nil,
		from.SecretKeyRef != nil, from.FileKeyRef != nil)
	switch {
	case n != 1:
		return field.ErrorList{field.Invalid(at, e.Name, "must name exactly one source")}
	case e.Value != "":
		return field.ErrorList{field.Invalid(at, e.Name, "may not be set together with value")}
	case from.FieldRef != nil && from.FieldRef.FieldPath == "":
		return field.ErrorList{field.Required(at.Child("fieldRef", "fieldPath"), "")}
	case from.ConfigMapKeyRef != nil && from.ConfigMapKeyRef.Key == "":
		return field.ErrorList{field.Required(at.Child("configMapKeyRef", "key"), "")}
	case from.SecretKeyRef != nil && from.SecretKeyRef.Key == "":
		return field.ErrorList{field.Required(at.Child("secretKeyRef", "key"), "")}
	}
	return nil
}

func checkResources(r *corev1.ResourceRequirements, at *field.Path) field.ErrorList {
	errs := checkQuantities(r.Limits, at.Child("limits"))
	errs = append(errs, checkQuantities(r.Requests, at.Child("requests"))...)
	for _, name := range sets.List(sets.KeySet(r.Requests)) {
		request := r.Requests[name]
		if limit, ok := r.Limits[name]; ok && request.Cmp(limit) > 0 {
			errs = append(errs, field.Invalid(at.Child("requests").Key(string(name)), request.String(),
				"must not exceed the limit of "+limit.String()))
		}
	}
	return errs
}

func checkQuantities(list corev1.ResourceList, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range sets.List(sets.KeySet(list)) {
		quantity := list[name]
		if quantity.Sign() < 0 {
			errs = append(errs, field.Invalid(at.Key(string(name)), quantity.String(), atLeastZero))
		}
		for _, msg := range validation.IsQualifiedName(string(name)) {
			errs = append(errs, field.Invalid(at, name, msg))
		}
	}
	return errs
}

// checkProbe checks a probe; once says that successThreshold must be 1.
func checkProbe(p *corev1.Probe, once bool, at *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	errs := checkHandler(p.Exec, p.HTTPGet, p.TCPSocket, p.GRPC, nil, at)
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
		if n.value < 0 {
			errs = append(errs, field.Invalid(at.Child(n.name), n.value, atLeastZero))
		}
	}
	if once && p.SuccessThreshold > 1 {
		errs = append(errs, field.Invalid(at.Child("successThreshold"), p.SuccessThreshold, "must be 1"))
	}
	if s := p.TerminationGracePeriodSeconds; s != nil && *s <= 0 {
		errs = append(errs, field.Invalid(at.Child("terminationGracePeriodSeconds"), *s, "must be above 0"))
	}
	if !once && p.TerminationGracePeriodSeconds != nil {
		errs = append(errs, field.Forbidden(at.Child("terminationGracePeriodSeconds"), "a readiness probe stops nothing"))
	}
	return errs
}

func checkHook(h *corev1.LifecycleHandler, at *field.Path) field.ErrorList {
	if h == nil {
		return nil
	}
	return checkHandler(h.Exec, h.HTTPGet, h.TCPSocket, nil, h.Sleep, at)
}

func checkHandler(exec *corev1.ExecAction, get *corev1.HTTPGetAction, tcp *corev1.TCPSocketAction,
	grpc *corev1.GRPCAction, sleep *corev1.SleepAction, at *field.Path,
) field.ErrorList {
	if n := count(exec != nil, get != nil, tcp != nil, grpc != nil, sleep != nil); n != 1 {
		return field.ErrorList{field.Invalid(at, n, "must have exactly one handler")}
	}
	switch {
	case exec != nil && len(exec.Command) == 0:
		return field.ErrorList{field.Required(at.Child("exec", "command"), "")}
	case get != nil:
		errs := checkPort(get.Port, at.Child("httpGet", "port"))
		return append(errs, oneOf(get.Scheme, at.Child("httpGet", "scheme"),
			corev1.URISchemeHTTP, corev1.URISchemeHTTPS)...)
	case tcp != nil:
		return checkPort(tcp.Port, at.Child("tcpSocket", "port"))
	case grpc != nil:
		return checkPort(intstr.FromInt32(grpc.Port), at.Child("grpc", "port"))
	}
	return nil
}

func checkPort(port intstr.IntOrString, at *field.Path) field.ErrorList {
	var msgs []string
	if port.Type == intstr.Int {
		msgs = validation.IsValidPortNum(int(port.IntVal))
	} else {
		msgs = validation.IsValidPortName(port.StrVal)
	}
	var errs field.ErrorList
	for _, msg := range msgs {
		errs = append(errs, field.Invalid(at, port.String(), msg))
	}
	return errs
}

func count(set ...bool) int {
	n := 0
	for _, s := range set {
		if s {
			n++
		}
	}
	return n
}
