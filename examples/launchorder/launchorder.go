// Package launchorder answers "in which order do a Pod's containers start?".
//
// Without help, the kubelet starts the containers of a Pod at the same time. But the kubelet does not create a
// container while an environment variable of the container refers to a missing key of a ConfigMap. [Order.Inject]
// adds such a variable, the barrier, to each container when the Pod is admitted. [Order.Next] decides from the status
// of the containers which keys a controller must add to the ConfigMap now. The keys of the highest priority come
// first. When every container with this priority is ready, the keys of the next priority follow, and so on.
//
// A Pod can request an order in two ways: an annotation starts the containers in the order of the Pod's list, and an
// environment variable gives a single container a priority, a number. Containers with a higher priority start first,
// and containers with the same priority start together. A container without the variable has priority 0. Init
// containers start in their own order; priorities do not apply to init containers.
//
// The order applies only to the first start of each container. If a container crashes later, no other container waits,
// and the order in which containers stop is not defined. A container that has ended successfully and is not restarted
// counts as ready, because otherwise the containers with a lower priority would never start.
//
// All functions are pure and safe for concurrent use.
package launchorder

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/reason"
)

const (
	// InvalidKeys means that a field of Keys is missing, is not a legal name, or has the value of another field.
	// InvalidKeys is a mistake in the program that uses this package.
	InvalidKeys reason.Code = "InvalidKeys"
	// InvalidLaunchPriority means that a container's launch priority is not a number, is not a literal value in the
	// Pod, or is out of range.
	InvalidLaunchPriority reason.Code = "InvalidLaunchPriority"
	// InvalidLaunchBarrier means that a container has a barrier (see Inject) whose key the controller never adds to
	// the ConfigMap.
	InvalidLaunchBarrier reason.Code = "InvalidLaunchBarrier"
	// InvalidBarrierName means that the Pod's name with the suffix of the barrier is not a legal name of a ConfigMap.
	InvalidBarrierName reason.Code = "InvalidBarrierName"
	// LaunchNotReady means that containers of a lower launch priority wait until the named container is ready.
	LaunchNotReady reason.Code = "LaunchNotReady"
	// LaunchFailed means that containers of a lower launch priority never start, because the named container has failed
	// and is not restarted.
	LaunchFailed reason.Code = "LaunchFailed"
)

const (
	// MinPriority is the lowest valid priority in an environment variable.
	MinPriority = -2147483647
	// MaxPriority is the highest valid priority in an environment variable.
	MaxPriority = 2147483647
	// True is the value of the keys in the ConfigMap, and of the annotation on a completed Pod.
	True = "true"
)

// Keys are the names that this package reads and writes in Pods. All names are required.
type Keys struct {
	// OrderedAnnotation is the annotation that, with the value OrderedValue, starts the containers in the order of the
	// Pod's list.
	OrderedAnnotation, OrderedValue string
	// CompletedAnnotation is set to "true" on a Pod once every key is in the ConfigMap.
	CompletedAnnotation string
	// PriorityEnv is the environment variable with a container's priority. BarrierEnv is the environment variable that
	// makes the container wait for a key.
	PriorityEnv, BarrierEnv string
	// KeyPrefix is the beginning of the keys in the ConfigMap; a priority follows.
	KeyPrefix string
	// NameSuffix is the end of the ConfigMap's name, which begins with the Pod's name.
	NameSuffix string
}

// Order decides the order in which containers of Pods start, and uses the names in its Keys. New makes an Order.
type Order struct{ keys Keys }

// New returns an Order. The error is a reason.List with the code InvalidKeys for every problem.
func New(keys Keys) (*Order, error) {
	if problems := keys.problems(); len(problems) > 0 {
		return nil, problems
	}
	return &Order{keys: keys}, nil
}

func (k *Keys) problems() (problems reason.List) {
	check := func(path, value string, illegal []string) {
		if value == "" {
			illegal = []string{"is required"}
		}
		if len(illegal) > 0 {
			problems = append(problems,
				reason.Reason{Code: InvalidKeys, Path: "Keys." + path, New: value, Detail: strings.Join(illegal, "; ")})
		}
	}
	check("OrderedAnnotation", k.OrderedAnnotation, validation.IsQualifiedName(strings.ToLower(k.OrderedAnnotation)))
	check("OrderedValue", k.OrderedValue, nil)
	check("CompletedAnnotation", k.CompletedAnnotation,
		validation.IsQualifiedName(strings.ToLower(k.CompletedAnnotation)))
	check("PriorityEnv", k.PriorityEnv, validation.IsEnvVarName(k.PriorityEnv))
	check("BarrierEnv", k.BarrierEnv, validation.IsEnvVarName(k.BarrierEnv))
	check("KeyPrefix", k.KeyPrefix, validation.IsConfigMapKey(k.KeyPrefix+"0"))
	check("NameSuffix", k.NameSuffix, validation.IsDNS1123Subdomain("x"+k.NameSuffix))
	twice := func(path, value, other string) {
		if value == other && value != "" {
			check(path, value, []string{"is used already"})
		}
	}
	twice("CompletedAnnotation", k.CompletedAnnotation, k.OrderedAnnotation)
	twice("BarrierEnv", k.BarrierEnv, k.PriorityEnv)
	return problems
}

// Inject adds a barrier to each container of a new Pod, if the Pod requests an order and has more than one container.
// A barrier contains the Pod's name. If the Pod has only a generateName, Inject sets the Pod's name to generatedName.
// Inject does not change a Pod whose barriers are correct. Barriers that refer to another ConfigMap are corrected, so
// that a Pod copied under a new name can start.
//
// The error is a reason.List with the codes InvalidLaunchPriority, InvalidLaunchBarrier and InvalidBarrierName. If
// there is an error, the Pod is not changed. Inject replaces slices instead of writing into them, because Pods may
// share slices.
func (o *Order) Inject(pod *corev1.Pod, generatedName string) (changed bool, err error) {
	if len(pod.Spec.Containers) <= 1 {
		return false, nil
	}
	priorities, problems := o.wanted(pod)
	for i := range pod.Spec.Containers {
		problems = append(problems, o.badBarriers(&pod.Spec.Containers[i])...)
	}
	name := pod.Name
	if name == "" && pod.GenerateName != "" {
		name = generatedName
	}
	if priorities != nil {
		problems = append(problems, o.badName(name)...)
	}
	if priorities == nil || len(problems) > 0 {
		return false, problems.Err()
	}
	containers := slices.Clone(pod.Spec.Containers)
	for i := range containers {
		env := o.withBarrier(containers[i].Env, name+o.keys.NameSuffix, priorities[i])
		if !equality.Semantic.DeepEqual(env, containers[i].Env) {
			containers[i].Env, changed = env, true
		}
	}
	if changed {
		pod.Spec.Containers = containers
	}
	changed = changed || pod.Name != name
	pod.Name = name
	return changed, nil
}

// wanted returns the priorities of the containers, or nil if the Pod requests no order.
func (o *Order) wanted(pod *corev1.Pod) (priorities []int, problems reason.List) {
	priorities = make([]int, len(pod.Spec.Containers))
	if pod.Annotations[o.keys.OrderedAnnotation] == o.keys.OrderedValue {
		for i := range priorities {
			priorities[i] = -i
		}
		return priorities, nil
	}
	for i := range pod.Spec.Containers {
		priority, problem := o.asked(&pod.Spec.Containers[i])
		problems, priorities[i] = append(problems, problem...), priority
	}
	if slices.Min(priorities) == slices.Max(priorities) {
		return nil, problems
	}
	return priorities, problems
}

// asked returns the priority that a container's environment variable requests. If several variables have the name, the
// last variable counts, as in the running container.
func (o *Order) asked(c *corev1.Container) (int, reason.List) {
	for i := len(c.Env) - 1; i >= 0; i-- {
		env := &c.Env[i]
		if env.Name != o.keys.PriorityEnv {
			continue
		}
		priority, err := strconv.ParseInt(env.Value, 10, 64)
		if err == nil && env.ValueFrom == nil && priority >= MinPriority && priority <= MaxPriority {
			return int(priority), nil
		}
		problem := reason.Reason{
			Code: InvalidLaunchPriority,
			Path: envPath(c, o.keys.PriorityEnv), New: reason.Shorten(strconv.Quote(env.Value), 40),
			Detail: fmt.Sprintf("want a whole number from %d to %d", MinPriority, MaxPriority),
		}
		if env.ValueFrom != nil {
			problem.New, problem.Detail = "valueFrom", "want a value: the order is fixed when the Pod is created"
		}
		return 0, reason.List{problem}
	}
	return 0, nil
}

// badBarriers returns a reason for each barrier whose key Next never returns: the author of the Pod has used the
// variable's name for another purpose.
func (o *Order) badBarriers(c *corev1.Container) (problems reason.List) {
	for i := range c.Env {
		env := &c.Env[i]
		if env.Name != o.keys.BarrierEnv {
			continue
		}
		if _, ok := o.level(env); ok {
			continue
		}
		found := strconv.Quote(env.Value)
		if ref := keyRef(env); ref != nil {
			found = "key " + strconv.Quote(ref.Key)
		} else if env.ValueFrom != nil {
			found = "valueFrom"
		}
		problems = append(problems, reason.Reason{
			Code: InvalidLaunchBarrier, Path: envPath(c, o.keys.BarrierEnv), New: reason.Shorten(found, 80),
			Detail: fmt.Sprintf("want valueFrom.configMapKeyRef with key %s<priority>", o.keys.KeyPrefix),
			Remedy: "leave this variable out: it is added where an order is asked for",
		})
	}
	return problems
}

func (o *Order) badName(pod string) reason.List {
	name, illegal := pod+o.keys.NameSuffix, []string{"the Pod has no name"}
	if pod != "" {
		illegal = validation.IsDNS1123Subdomain(name)
	}
	if len(illegal) == 0 {
		return nil
	}
	return reason.List{{
		Code: InvalidBarrierName, Path: "metadata.name", New: reason.Shorten(pod, 80),
		Detail: fmt.Sprintf("with %s it has to name a ConfigMap: %s", o.keys.NameSuffix, strings.Join(illegal, "; ")),
		Remedy: fmt.Sprintf("give the Pod a name of at most %d characters",
			validation.DNS1123SubdomainMaxLength-len(o.keys.NameSuffix)),
	}}
}

// withBarrier returns a new slice of variables with exactly one barrier: in the place of an existing barrier, or at the
// end if there was none.
func (o *Order) withBarrier(env []corev1.EnvVar, configMap string, priority int) []corev1.EnvVar {
	key := &corev1.ConfigMapKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: configMap},
		Key:                  o.keys.KeyPrefix + strconv.Itoa(priority),
	}
	barrier := corev1.EnvVar{Name: o.keys.BarrierEnv, ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: key}}
	out, done := make([]corev1.EnvVar, 0, len(env)+1), false
	for _, have := range env {
		switch {
		case have.Name != o.keys.BarrierEnv:
			out = append(out, have)
		case !done:
			out, done = append(out, barrier), true
		}
	}
	if !done {
		out = append(out, barrier)
	}
	return out
}

// Priority reads the priority of a container from its barrier. ok is false if the container has no barrier. Priority
// has the signature of inplaceupdate.Config.Priority.
func (o *Order) Priority(c *corev1.Container) (priority int, ok bool) {
	for i := range c.Env {
		if c.Env[i].Name == o.keys.BarrierEnv && keyRef(&c.Env[i]) != nil {
			return o.level(&c.Env[i])
		}
	}
	return 0, false
}

// level reads the priority from the key in a barrier.
func (o *Order) level(env *corev1.EnvVar) (priority int, ok bool) {
	ref := keyRef(env)
	if ref == nil {
		return 0, false
	}
	digits, found := strings.CutPrefix(ref.Key, o.keys.KeyPrefix)
	if !found {
		return 0, false
	}
	priority, err := strconv.Atoi(digits)
	return priority, err == nil
}

// ConfigMapName returns the name of the ConfigMap for whose keys the Pod's containers wait.
func (o *Order) ConfigMapName(pod *corev1.Pod) string { return pod.Name + o.keys.NameSuffix }

// Completion returns the change that marks a Pod as completed. Call Completion once all keys are in the ConfigMap.
func (o *Order) Completion(pod *corev1.Pod) podpatch.Change {
	value := True
	return podpatch.Change{UID: pod.UID, Annotations: map[string]*string{o.keys.CompletedAnnotation: &value}}
}

func (o *Order) completed(pod *corev1.Pod) bool {
	return pod.Annotations[o.keys.CompletedAnnotation] == True
}

func keyRef(env *corev1.EnvVar) *corev1.ConfigMapKeySelector {
	if env.ValueFrom == nil {
		return nil
	}
	return env.ValueFrom.ConfigMapKeyRef
}

func envPath(c *corev1.Container, name string) string {
	return fmt.Sprintf("spec.containers[%s].env[%s]", c.Name, name)
}

func object(pod *corev1.Pod) reason.Object {
	return reason.Object{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}
