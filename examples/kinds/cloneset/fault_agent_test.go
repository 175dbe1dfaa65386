package cloneset

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// templateEnv returns an environment variable whose value is a label that edits of the template change.
func templateEnv() corev1.EnvVar {
	return corev1.EnvVar{Name: "TEMPLATE", ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.labels['" + templateLabel + "']"},
	}}
}

// editBoth changes an image, and the label that the container's environment refers to.
func (w *story) editBoth(cs *v1beta1.CloneSet) string {
	t := &cs.Spec.Template
	t.Spec.Containers[0].Image = w.image(t.Spec.Containers[0].Name)
	t.Labels[templateLabel] = fmt.Sprint(1 + w.Rand().IntN(3))
	return "image " + t.Spec.Containers[0].Image + " and label " + t.Labels[templateLabel]
}

// agentAll makes the node agents work on all Pods.
func (w *story) agentAll() (changed bool) {
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		changed = w.agent(pod) || changed
	}
	return changed
}

// agentPolls shows new container instances to the node agents before the Pods' statuses show them, because agents ask
// the container runtime many times a second.
func (w *story) agentPolls() {
	if !w.setup.agent {
		return
	}
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		for i := range pod.Spec.Containers {
			name := pod.Spec.Containers[i].Name
			id, _ := w.Nodes.Env(pod.UID, name)
			if status := podstate.ContainerStatus(pod, name); id != "" && status != nil && status.ContainerID != id && w.Chance(20) {
				w.agent(pod)
				return
			}
		}
	}
}

// agent restarts containers whose environment has old values of labels, and reports the present values. The result is
// true if there was work to do.
func (w *story) agent(pod *corev1.Pod) (changed bool) {
	if !w.setup.agent || pod.DeletionTimestamp != nil {
		return false
	}
	report := struct {
		Containers []reportedContainer `json:"containers"`
	}{}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		id, env := w.Nodes.Env(pod.UID, c.Name)
		if id == "" {
			continue
		}
		if !equality.Semantic.DeepEqual(env, wantedEnv(pod, c)) {
			w.Logf("agent: restart %s/%s", pod.Name, c.Name)
			changed = w.Nodes.Crash(pod.UID, c.Name) || changed
			if now, _ := w.Nodes.Env(pod.UID, c.Name); now == id {
				continue
			}
			id, env = w.Nodes.Env(pod.UID, c.Name)
		}
		r := reportedContainer{Name: c.Name, ContainerID: id, CreatedAt: w.createdAt(pod, c.Name, id)}
		if instance := w.instance(pod, c.Name); instance != nil {
			r.RestartCount = instance.Restarts
		}
		r.Hashes.Plain = faultapi.AgentHash(asJSON(map[string]string{"name": c.Name, "image": w.Nodes.Image(pod.UID, c.Name)}))
		slices.SortStableFunc(env, func(a, b corev1.EnvVar) int { return cmp.Compare(a.Name, b.Name) })
		r.Hashes.Env = faultapi.AgentHash(asJSON(env))
		report.Containers = append(report.Containers, r)
	}
	if len(report.Containers) == 0 || pod.Annotations[apps.AnnotationRuntimeContainersMeta] == asJSON(report) {
		return changed
	}
	w.Logf("agent: report %s", pod.Name)
	w.change(pod, func(p *corev1.Pod) {
		if p.Annotations == nil {
			p.Annotations = map[string]string{}
		}
		p.Annotations[apps.AnnotationRuntimeContainersMeta] = asJSON(report)
	})
	return true
}

func (w *story) instance(pod *corev1.Pod, container string) *faultapi.Instance {
	all := w.Nodes.Instances()
	i := slices.IndexFunc(all, func(one faultapi.Instance) bool { return one.Pod.UID == pod.UID && one.Name == container })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// createdAt returns the start time of a running container instance that the Pod's status does not show yet during an
// update.
func (w *story) createdAt(pod *corev1.Pod, container, id string) int64 {
	var before struct {
		Containers []reportedContainer `json:"containers"`
	}
	if err := json.Unmarshal([]byte(cmp.Or(pod.Annotations[apps.AnnotationRuntimeContainersMeta], "{}")), &before); err == nil {
		for _, known := range before.Containers {
			if known.ContainerID == id && known.CreatedAt > 0 {
				return known.CreatedAt
			}
		}
	}
	gate, instance, status := podstate.Condition(pod, apps.ConditionInPlaceUpdateReady), w.instance(pod, container), podstate.ContainerStatus(pod, container)
	if gate == nil || gate.Status != corev1.ConditionFalse || instance == nil || instance.Exit != nil || status != nil && status.ContainerID == id {
		return 0
	}
	w.Logf("agent: sees %s/%s before the node", pod.Name, container)
	return instance.Started.Unix()
}

// reportedContainer is a node agent's report about a container.
type reportedContainer struct {
	Name         string `json:"name"`
	ContainerID  string `json:"containerID"`
	RestartCount int32  `json:"restartCount"`
	CreatedAt    int64  `json:"createdAt,omitempty"`
	Hashes       struct {
		Plain uint32 `json:"plainHash"`
		Env   uint32 `json:"extractedEnvFromMetadataHash"`
	} `json:"hashes"`
}

// wantedEnv returns the environment that the container would have if it started now.
func wantedEnv(pod *corev1.Pod, c *corev1.Container) (out []corev1.EnvVar) {
	for _, e := range c.Env {
		if e.ValueFrom != nil {
			out = append(out, corev1.EnvVar{Name: e.Name, Value: pod.Labels[templateLabel]})
		}
	}
	return out
}

// judgeEnv checks that a readiness gate is opened only if no container runs with an outdated value of a label.
func (w *story) judgeEnv(pod *corev1.Pod) {
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if id, env := w.Nodes.Env(pod.UID, c.Name); id != "" && !equality.Semantic.DeepEqual(env, wantedEnv(pod, c)) {
			w.Failf("gate", "the gate of Pod %s is opened, whose container %s has read %s and not %s", pod.Name, c.Name, asJSON(env), asJSON(wantedEnv(pod, c)))
		}
	}
}
