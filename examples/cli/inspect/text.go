package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/workloadkit/workloadkit/examples/cli/facts"
	"github.com/workloadkit/workloadkit/examples/cli/fields"
)

// These are labels of the Pods of a Rollout.
const (
	labelBatch    = "rollouts.kruise.io/rollout-batch-id"
	labelRevision = "controller-revision-hash"
	labelTemplate = "pod-template-hash"
)

// strategy returns the name of the strategy, the path of its settings and the path of its status. A Rollout without a
// strategy counts as a canary.
func (v *View) strategy() (name, spec, status string) {
	if _, found := fields.At(v.Rollout.Object, "spec.strategy.blueGreen"); found {
		return "BlueGreen", "spec.strategy.blueGreen", "status.blueGreenStatus"
	}
	return "Canary", "spec.strategy.canary", "status.canaryStatus"
}

// Text renders the view. Parts that the Rollout lacks are left out.
func (v *View) Text() string {
	var b strings.Builder
	line := func(label, text string) {
		if text != "" {
			fmt.Fprintf(&b, "%-19s%s\n", label+":", text)
		}
	}
	o := v.Rollout.Object
	name, spec, status := v.strategy()
	steps, step := fields.List(o, spec+".steps"), fields.Int(o, status+".currentStepIndex")
	line("Name", v.Rollout.GetName())
	line("Namespace", v.Rollout.GetNamespace())
	phase := fields.String(o, "status.phase")
	line("Status", strings.TrimSpace(v.icon(phase)+" "+phase))
	line("Message", fields.String(o, "status.message"))
	line("Strategy", name)
	if step > 0 {
		line("Step", fmt.Sprintf("%d/%d", step, len(steps)))
	}
	v.steps(&b, steps, step, fields.String(o, status+".currentStepState"))
	for _, routing := range fields.List(o, spec+".trafficRoutings") {
		line("Traffic Routing", route(routing))
	}
	line("Images", strings.Join(images(v.Workload.Object), ", "))
	line("Current Revision", fields.String(o, status+".stableRevision"))
	line("Update Revision", fields.String(o, status+".canaryRevision", status+".updatedRevision"))
	b.WriteString("Replicas:\n")
	for _, count := range []struct{ label, path string }{
		{"Desired", "spec.replicas"},
		{"Updated", "status.updatedReplicas"},
		{"Current", "status.replicas"},
		{"Ready", "status.readyReplicas"},
		{"Available", "status.availableReplicas"},
	} {
		fmt.Fprintf(&b, "  %-17s%d\n", count.label+":", fields.Int(v.Workload.Object, count.path))
	}
	v.pods(&b, step)
	return b.String()
}

// icon returns an icon for a phase: done, in progress, or failed.
func (v *View) icon(phase string) string {
	if !v.Icons {
		return ""
	}
	icon, colour := "⚠", "33"
	switch phase {
	case "Healthy", "Running":
		icon, colour = "✔", "32"
	case "Failed", "Disabled", "Terminating":
		icon, colour = "✖", "31"
	case "":
		return ""
	}
	return v.paint(icon, colour)
}

func (v *View) paint(text, colour string) string {
	if !v.Colours {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

func (v *View) steps(b *strings.Builder, steps []fields.Object, current int64, state string) {
	if len(steps) > 0 {
		b.WriteString("Steps:\n")
	}
	for i, s := range steps {
		parts := []string{fmt.Sprintf("%d:", i+1)}
		for _, part := range []struct{ label, path string }{{"replicas", "replicas"}, {"traffic", "traffic"}, {"weight", "weight"}} {
			if value := fields.IntOrString(s, part.path); value != nil {
				parts = append(parts, part.label+" "+value.String())
			}
		}
		if matches := fields.List(s, "matches"); len(matches) > 0 {
			parts = append(parts, fmt.Sprintf("%d header matches", len(matches)))
		}
		text := strings.Join(parts, " ")
		if int64(i)+1 == current {
			text = v.paint(strings.TrimSpace(text+" <- "+state), "32")
		}
		fmt.Fprintf(b, "  %s\n", text)
	}
}

// route describes how traffic is moved.
func route(r fields.Object) string {
	parts := []string{"service " + fields.String(r, "service")}
	if name := fields.String(r, "ingress.name"); name != "" {
		parts = append(parts, strings.TrimSpace("ingress "+fields.String(r, "ingress.classType")+" "+name))
	}
	if name := fields.String(r, "gateway.httpRouteName"); name != "" {
		parts = append(parts, "HTTPRoute "+name)
	}
	for _, ref := range fields.List(r, "customNetworkRefs") {
		parts = append(parts, fields.String(ref, "kind")+" "+fields.String(ref, "name"))
	}
	return strings.Join(parts, ", ")
}

func images(workload fields.Object) (list []string) {
	for _, path := range facts.Templates(workload) {
		for _, c := range fields.List(workload, path+".spec.containers") {
			list = append(list, fields.String(c, "image"))
		}
	}
	return list
}

// pods lists the Pods of the new revision: sorted by batch, and in a batch the ready Pods first.
func (v *View) pods(b *strings.Builder, step int64) {
	_, _, status := v.strategy()
	revision := fields.String(v.Rollout.Object, status+".podTemplateHash", status+".canaryRevision", status+".updatedRevision")
	shown := slices.DeleteFunc(slices.Clone(v.Pods), func(pod corev1.Pod) bool {
		isNew := revision == "" || pod.Labels[labelTemplate] == revision || strings.TrimPrefix(pod.Labels[labelRevision], v.Workload.GetName()+"-") == revision ||
			pod.Labels[labelRevision] == revision
		return !isNew || !v.All && step > 0 && pod.Labels[labelBatch] != fmt.Sprint(step)
	})
	slices.SortStableFunc(shown, func(a, b corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Labels[labelBatch], b.Labels[labelBatch]), ready(&b)-ready(&a), strings.Compare(a.Name, b.Name))
	})
	if len(shown) == 0 {
		return
	}
	table := tabwriter.NewWriter(b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tREADY\tBATCH ID\tREVISION\tAGE\tRESTARTS\tSTATUS")
	for i := range shown {
		pod := &shown[i]
		state, restarts := string(pod.Status.Phase), int32(0)
		if pod.DeletionTimestamp != nil {
			state = "Terminating"
		}
		for _, c := range pod.Status.ContainerStatuses {
			restarts += c.RestartCount
		}
		fmt.Fprintf(table, "%s\t%d/%d\t%s\t%s\t%s\t%d\t%s\n", pod.Name, ready(pod), len(pod.Spec.Containers), pod.Labels[labelBatch],
			cmp.Or(pod.Labels[labelTemplate], pod.Labels[labelRevision]), duration.HumanDuration(v.Now.Sub(pod.CreationTimestamp.Time)), restarts, state)
	}
	_ = table.Flush() // a strings.Builder accepts every write
}

// ready counts the ready containers of a Pod.
func ready(pod *corev1.Pod) (n int) {
	for _, c := range pod.Status.ContainerStatuses {
		if c.Ready {
			n++
		}
	}
	return n
}
