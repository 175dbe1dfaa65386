// Package overview has "kubectl kruise get all": a table of the objects of each kind of OpenKruise and Kruise Rollouts
// that the API server serves.
package overview

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/workloadkit/workloadkit/examples/cli/fields"
)

// column is a column of a table: a heading, and a function that returns the value for an object.
type column struct {
	heading string
	value   func(fields.Object) string
}

// Unknown is printed for a value that an object lacks.
const Unknown = "-"

// at returns a column with the value at the first path that an object has.
func at(heading string, paths ...string) column {
	return column{heading, func(o fields.Object) string {
		value, found := fields.At(o, paths...)
		if !found {
			return Unknown
		}
		switch v := value.(type) {
		case string, bool:
			return fmt.Sprint(v)
		case int64, float64:
			return strconv.FormatInt(fields.Int(o, paths...), 10)
		}
		return Unknown
	}}
}

// size returns a column with the number of entries in the list or map at a path.
func size(heading, path string) column {
	return column{heading, func(o fields.Object) string {
		value, _ := fields.At(o, path)
		switch v := value.(type) {
		case []any:
			return strconv.Itoa(len(v))
		case fields.Object:
			return strconv.Itoa(len(v))
		}
		return "0"
	}}
}

// pairs returns a column with a map in the form of a label selector.
func pairs(heading, path string) column {
	return column{heading, func(o fields.Object) string {
		value, _ := fields.At(o, path)
		set, _ := value.(fields.Object)
		list := make([]string, 0, len(set))
		for key, v := range set {
			list = append(list, fmt.Sprintf("%s=%v", key, v))
		}
		if slices.Sort(list); len(list) == 0 {
			return "<none>"
		}
		return strings.Join(list, ",")
	}}
}

// table contains the columns of a kind between NAME and AGE.
type table struct {
	resource string
	columns  []column
}

// tables lists the kinds in the order of the output. Kinds that are not listed follow, with name and age alone.
func tables() []table {
	return slices.Concat(workloads(), jobs(), policies())
}

func workloads() []table {
	return []table{
		{"clonesets", []column{
			at("DESIRED", "spec.replicas"), at("UPDATED", "status.updatedReplicas"), at("UPDATED_READY", "status.updatedReadyReplicas"),
			at("UPDATED_AVAILABLE", "status.updatedAvailableReplicas"), at("READY", "status.readyReplicas"), at("TOTAL", "status.replicas"),
		}},
		{"statefulsets", []column{
			at("DESIRED", "spec.replicas"), at("CURRENT", "status.replicas"), at("UPDATED", "status.updatedReplicas"), at("READY", "status.readyReplicas"),
		}},
		{"daemonsets", []column{
			at("DESIRED", "status.desiredNumberScheduled"), at("CURRENT", "status.currentNumberScheduled"), at("READY", "status.numberReady"),
			at("UP-TO-DATE", "status.updatedNumberScheduled"), at("AVAILABLE", "status.numberAvailable"), pairs("NODE SELECTOR", "spec.template.spec.nodeSelector"),
		}},
		{"uniteddeployments", []column{
			at("DESIRED", "spec.replicas"), at("UPDATED", "status.updatedReplicas"), at("READY", "status.readyReplicas"), at("AVAILABLE", "status.availableReplicas"),
		}},
		{"rollouts", []column{
			at("STATUS", "status.phase"), at("CANARY_STEP", "status.canaryStatus.currentStepIndex", "status.blueGreenStatus.currentStepIndex"),
			at("CANARY_STATE", "status.canaryStatus.currentStepState", "status.blueGreenStatus.currentStepState"), at("MESSAGE", "status.message"),
		}},
	}
}

func jobs() []table {
	return []table{
		{"broadcastjobs", []column{at("DESIRED", "status.desired"), at("ACTIVE", "status.active"), at("SUCCEEDED", "status.succeeded"), at("FAILED", "status.failed")}},
		{"ephemeraljobs", []column{at("PHASE", "status.phase"), at("MATCHED", "status.match"), at("RUNNING", "status.running"), at("SUCCEEDED", "status.succeeded"), at("FAILED", "status.failed")}},
		{"containerrecreaterequests", []column{at("PHASE", "status.phase"), containers("COMPLETED", "Succeeded"), containers("FAILED", "Failed")}},
		{"advancedcronjobs", []column{
			at("SCHEDULE", "spec.schedule"), at("SUSPEND", "spec.paused"), size("ACTIVE", "status.active"), at("LAST SCHEDULE", "status.lastScheduleTime"),
		}},
		{"imagepulljobs", []column{
			at("PHASE", "status.phase"), at("COMPLETED", "status.succeeded"), at("FAILED", "status.failed"), at("TOTAL", "status.desired"),
		}},
		{"imagelistpulljobs", []column{at("COMPLETED", "status.completed"), at("SUCCEEDED", "status.succeeded"), at("TOTAL", "status.desired")}},
	}
}

func policies() []table {
	return []table{
		{"sidecarsets", []column{
			at("MATCHED", "status.matchedPods"), at("UPDATED", "status.updatedPods"), at("READY", "status.readyPods"), at("INJECTED", "status.matchedPods"),
		}},
		{"resourcedistributions", []column{at("TARGETS", "status.desired"), at("SUCCEEDED", "status.succeeded"), at("FAILED", "status.failed")}},
		{"podprobemarkers", []column{at("TARGETS", "status.matchedPods"), size("PROBES", "spec.probes")}},
		{"workloadspreads", []column{at("TARGET", "spec.targetRef.name"), size("SUBSETS", "spec.subsets"), at("ADAPTIVE", "spec.scheduleStrategy.type")}},
		{"persistentpodstates", []column{at("TARGET", "spec.targetRef.name"), size("PODS", "status.podStates")}},
		{"podunavailablebudgets", []column{
			at("MAXUNAVAILABLE", "spec.maxUnavailable"), at("UNAVAILABLE", "status.unavailableAllowed"), size("DISRUPTIONS", "status.disruptedPods"),
			at("TARGETS", "status.totalReplicas"),
		}},
		{"nodeimages", []column{at("DESIRED", "status.desired"), at("PULLING", "status.pulling"), at("SUCCEEDED", "status.succeeded"), at("FAILED", "status.failed")}},
	}
}

// containers returns a column with the number of a request's containers in a phase.
func containers(heading, phase string) column {
	return column{heading, func(o fields.Object) string {
		n := 0
		for _, c := range fields.List(o, "status.containerRecreateStates") {
			if fields.String(c, "phase") == phase {
				n++
			}
		}
		return strconv.Itoa(n)
	}}
}

// rows returns the headings and the rows of a table. wide adds the namespace and the version.
func rows(resource string, objects []unstructured.Unstructured, wide bool, now time.Time) [][]string {
	var columns []column
	if i := slices.IndexFunc(tables(), func(t table) bool { return t.resource == resource }); i >= 0 {
		columns = tables()[i].columns
	}
	head := []string{"NAME"}
	for _, c := range columns {
		head = append(head, c.heading)
	}
	if head = append(head, "AGE"); wide {
		head = append(head, "NAMESPACE", "VERSION")
	}
	all := [][]string{head}
	for i := range objects {
		u := &objects[i]
		row := []string{u.GetName()}
		for _, c := range columns {
			row = append(row, c.value(u.Object))
		}
		if row = append(row, duration.HumanDuration(now.Sub(u.GetCreationTimestamp().Time))); wide {
			row = append(row, u.GetNamespace(), u.GetAPIVersion())
		}
		all = append(all, row)
	}
	return all
}
