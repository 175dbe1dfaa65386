package cloneset_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise/judge"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

func TestStatus(t *testing.T) {
	behave(t, "", []string{"exceeded quota"}, []behaviour{
		{"C-49 every number, in the middle of a rollout", statusNumbers},
		{"C-49 C-56 minReadySeconds", minReadySeconds},
		{"C-50 C-51 Progressing from reason to reason", progressing},
		{"C-52 progress of a Pod starts the deadline again", progressResets},
		{"C-2 C-53 FailedScale while Pods are refused, and updates go on", failedScale},
	})
}

func statusNumbers(c *cluster) {
	cs := c.create(c.cloneSet("numbers", 5, rolling(func(ru *v1beta1.RollingUpdateCloneSet) {
		ru.Partition, ru.MaxUnavailable = new(intstr.FromInt32(2)), new(intstr.FromInt32(5))
	})))
	first := cs.Status.UpdateRevision
	c.change("numbers", setImage(0, "example.test/app:v2"))
	second := c.until("numbers", settled).Status.UpdateRevision
	sick := map[string]bool{} // the images of Pods that are not ready
	for _, pod := range c.pods("numbers") {
		if image := pod.Spec.Containers[0].Image; !sick[image] {
			sick[image] = true
			c.annotate(pod.Name, controlplane.Unready, "log")
		}
	}
	want := v1beta1.CloneSetStatus{
		ObservedGeneration: 2, Replicas: 5, ReadyReplicas: 3, AvailableReplicas: 3, UpdatedReplicas: 3, UpdatedReadyReplicas: 2,
		UpdatedAvailableReplicas: 2, ExpectedUpdatedReplicas: 3, UpdateRevision: second, CurrentRevision: first,
		CollisionCount: new(int32), LabelSelector: "app=numbers",
	}
	c.until("numbers", func(cs *v1beta1.CloneSet) error {
		if diff := cmp.Diff(want, cs.Status, cmpopts.EquateEmpty()); diff != "" {
			return fmt.Errorf("status (-want +got):\n%s", diff)
		}
		return nil
	})
}

func minReadySeconds(c *cluster) {
	cs := c.cloneSet("minready", 2, func(cs *v1beta1.CloneSet) { cs.Spec.MinReadySeconds = 8 })
	versions := c.history("minready")
	if err := c.Create(c.t.Context(), cs); err != nil {
		c.t.Fatal(err)
	}
	versions.until(func(cs *v1beta1.CloneSet) error {
		if cs.Status.ReadyReplicas == 0 || cs.Status.AvailableReplicas != 0 {
			return fmt.Errorf("%+v", cs.Status)
		}
		return nil
	})
	c.until("minready", settled) // no event occurs when minReadySeconds have passed
	c.watch("minready", limits{minReady: 1, maxPods: 2})
	c.change("minready", setImage(0, "example.test/app:v2"))
	c.until("minready", settled)
}

func progressing(c *cluster) {
	versions := c.history("progress") // each Pod takes 2 seconds to start
	is := func(status corev1.ConditionStatus, reason string, texts ...string) *v1beta1.Condition {
		c.t.Helper()
		cs := versions.until(hasCondition(apps.ConditionProgressing, status, reason, texts...))
		i := slices.IndexFunc(cs.Status.Conditions, func(have v1beta1.Condition) bool { return have.Type == apps.ConditionProgressing })
		return &cs.Status.Conditions[i]
	}
	seconds := int32(2)
	c.create(c.cloneSet("progress", 2, func(cs *v1beta1.CloneSet) { cs.Spec.ProgressDeadlineSeconds = &seconds }))
	is(corev1.ConditionTrue, apps.ReasonProgressAvailable)
	c.change("progress", both(setImage(0, "example.test/app:v2"), rolling(func(ru *v1beta1.RollingUpdateCloneSet) {
		ru.Paused, ru.Partition = true, new(intstr.FromInt32(1))
	})))
	is(corev1.ConditionTrue, apps.ReasonProgressPaused)
	c.change("progress", rolling(func(ru *v1beta1.RollingUpdateCloneSet) { ru.Paused = false }))
	is(corev1.ConditionTrue, apps.ReasonProgressPartitionAvailable)
	c.change("progress", both(setImage(0, "example.test/app:v3"), templateAnnotation(controlplane.Unready, "*"),
		rolling(func(ru *v1beta1.RollingUpdateCloneSet) { ru.Partition = nil })))
	began := is(corev1.ConditionTrue, apps.ReasonProgressUpdated)
	revision := c.get(c.t.Context(), "progress").Status.UpdateRevision
	late := is(corev1.ConditionFalse, apps.ReasonProgressDeadlineExceeded, revision)
	if took := late.LastTransitionTime.Sub(began.LastUpdateTime.Time); took < 2*time.Second {
		c.t.Errorf("the deadline of 2 s was found exceeded after %s", took)
	}
	c.change("progress", func(cs *v1beta1.CloneSet) { delete(cs.Spec.Template.Annotations, controlplane.Unready) })
	is(corev1.ConditionTrue, apps.ReasonProgressAvailable)
	c.until("progress", settled)
	seconds = math.MaxInt32
	c.change("progress", func(cs *v1beta1.CloneSet) { cs.Spec.ProgressDeadlineSeconds = &seconds })
	c.until("progress", withoutCondition(apps.ConditionProgressing))
}

// progressResets checks that each created Pod restarts the progress deadline. Creating three Pods one after the other
// takes longer than the deadline, but creating one Pod does not.
func progressResets(c *cluster) {
	seconds := int32(10) // longer than a Pod takes on a busy machine
	c.create(c.cloneSet("resets", 3, templateAnnotation(controlplane.StartDelay, "4s"), func(cs *v1beta1.CloneSet) {
		cs.Spec.ProgressDeadlineSeconds = &seconds
	}))
	c.change("resets", setImage(0, "example.test/app:v2"))
	c.until("resets", hasCondition(apps.ConditionProgressing, corev1.ConditionTrue, apps.ReasonProgressUpdated))
	c.until("resets", func(cs *v1beta1.CloneSet) error {
		if hasCondition(apps.ConditionProgressing, corev1.ConditionFalse, "")(cs) == nil {
			c.t.Fatalf("exceeded with %d Pods updated", cs.Status.UpdatedAvailableReplicas)
		}
		return errors.Join(settled(cs), hasCondition(apps.ConditionProgressing, corev1.ConditionTrue, apps.ReasonProgressAvailable)(cs))
	})
}

func failedScale(c *cluster) {
	c.moveOut()
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "few"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("2")}},
	}
	if err := c.Create(c.t.Context(), quota); err != nil {
		c.t.Fatal(err)
	}
	controlplanetest.Eventually(c.t, 30*time.Second, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(quota), quota); err != nil || len(quota.Status.Hard) == 0 {
			return errors.Join(err, errors.New("the quota is not in force yet"))
		}
		return nil
	})
	if err := c.Create(c.t.Context(), c.cloneSet("quota", 3)); err != nil {
		c.t.Fatal(err)
	}
	c.until("quota", hasCondition(apps.ConditionFailedScale, corev1.ConditionTrue, "", "exceeded quota"))
	c.untilEvent("quota", apps.EventFailedCreate, "exceeded quota")
	c.untilPods("quota", count(2))
	// One Pod is missing, and uses up a budget of 1. With a budget of 2, one Pod is updated.
	c.change("quota", both(setImage(0, "example.test/app:v2"), rolling(func(ru *v1beta1.RollingUpdateCloneSet) {
		ru.MaxUnavailable = new(intstr.FromInt32(2))
	})))
	c.untilPods("quota", images(map[string]int{"v2": 2}))
	if err := c.Patch(c.t.Context(), quota, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"hard":{"pods":"10"}}}`))); err != nil {
		c.t.Fatal(err)
	}
	c.until("quota", settled)
	c.until("quota", withoutCondition(apps.ConditionFailedScale))
}

// TestBadInput: the controller reports invalid values that were stored without admission, and changes nothing. After
// the correction, the controller continues. The CRD's schema accepts all of these values except negative replicas,
// which the API server refuses because of the scale subresource.
func TestBadInput(t *testing.T) {
	cases := []behaviour{{"negative replicas are refused", refusedReplicas}}
	for i, tc := range slices.Concat(badCounts(), badOrders()) {
		cases = append(cases, behaviour{tc.name, func(c *cluster) { badInput(c, fmt.Sprintf("bad%d", i), tc.path, tc.value, tc.spoil) }})
	}
	behave(t, "", nil, cases)
}

// TestOddInput: invalid values that OpenKruise accepts silently work as in OpenKruise, and lead to a warning.
func TestOddInput(t *testing.T) {
	behave(t, "", nil, []behaviour{{"a number in quotes does not stop the replacement of lost Pods", oddInput}})
}

func oddInput(c *cluster) {
	c.create(c.cloneSet("odd", 2))
	lost := c.pods("odd")[0]
	c.change("odd", func(cs *v1beta1.CloneSet) {
		cs.Spec.ScaleStrategy.MaxUnavailable = new(intstr.FromString("5"))
		cs.Spec.MinReadySeconds = -1
	})
	c.until("odd", hasCondition(apps.ConditionOddSpec, corev1.ConditionTrue, string(judge.OddValue), `spec.scaleStrategy.maxUnavailable: "5": read as "5%"`, "spec.minReadySeconds"))
	if err := c.Delete(c.t.Context(), &lost); err != nil {
		c.t.Fatal(err)
	}
	c.untilGone(lost.Name)
	c.until("odd", settled)
	c.change("odd", func(cs *v1beta1.CloneSet) {
		cs.Spec.ScaleStrategy.MaxUnavailable = new(intstr.FromString("5%"))
		cs.Spec.MinReadySeconds = 0
	})
	c.until("odd", withoutCondition(apps.ConditionOddSpec))
}

// badValue is a change that makes a spec invalid. The condition must name the path and the value.
type badValue struct {
	name, path, value string
	spoil             func(*v1beta1.CloneSet)
}

func badCounts() []badValue {
	ru := rolling
	return []badValue{
		{"scale maxUnavailable in words", "spec.scaleStrategy.maxUnavailable", `"few"`, func(cs *v1beta1.CloneSet) {
			cs.Spec.ScaleStrategy.MaxUnavailable = new(intstr.FromString("few"))
		}},
		{"partition in words", "spec.updateStrategy.rollingUpdate.partition", `"half"`, ru(func(ru *v1beta1.RollingUpdateCloneSet) {
			ru.Partition = new(intstr.FromString("half"))
		})},
		{"negative partition", "spec.updateStrategy.rollingUpdate.partition", "-1", ru(func(ru *v1beta1.RollingUpdateCloneSet) {
			ru.Partition = new(intstr.FromInt32(-1))
		})},
		{"maxUnavailable without percent sign", "spec.updateStrategy.rollingUpdate.maxUnavailable", `"5"`, ru(func(ru *v1beta1.RollingUpdateCloneSet) {
			ru.MaxUnavailable = new(intstr.FromString("5"))
		})},
		{"negative maxUnavailable", "spec.updateStrategy.rollingUpdate.maxUnavailable", "-1", ru(func(ru *v1beta1.RollingUpdateCloneSet) {
			ru.MaxUnavailable = new(intstr.FromInt32(-1))
		})},
		{"negative percentage of maxSurge", "spec.updateStrategy.rollingUpdate.maxSurge", `"-10%"`, ru(func(ru *v1beta1.RollingUpdateCloneSet) {
			ru.MaxSurge = new(intstr.FromString("-10%"))
		})},
		{"maxSurge with InPlaceOnly", "spec.updateStrategy.rollingUpdate.maxSurge", "1", ru(func(ru *v1beta1.RollingUpdateCloneSet) {
			ru.PodUpdatePolicy, ru.MaxSurge = v1beta1.InPlaceOnly, new(intstr.FromInt32(1))
		})},
		{"unknown policy", "spec.updateStrategy.rollingUpdate.podUpdatePolicy", "Sometimes", policy("Sometimes")},
		{"unknown type", "spec.updateStrategy.type", "Never", func(cs *v1beta1.CloneSet) { cs.Spec.UpdateStrategy.Type = "Never" }},
	}
}

func badOrders() []badValue {
	ru := rolling
	return []badValue{
		{"weight above 100", "spec.updateStrategy.rollingUpdate.priorityStrategy.weightPriority[0].weight", "101", priority(pub.PriorityStrategy{
			WeightPriority: []pub.WeightPriorityTerm{{Weight: 101, MatchSelector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}},
		})},
		{"weight of an empty selector", "spec.updateStrategy.rollingUpdate.priorityStrategy.weightPriority[0].matchSelector", "must select at least one label", priority(pub.PriorityStrategy{
			WeightPriority: []pub.WeightPriorityTerm{{Weight: 1}},
		})},
		{"weight of an invalid selector", "spec.updateStrategy.rollingUpdate.priorityStrategy.weightPriority[0].matchSelector", "Perhaps", priority(pub.PriorityStrategy{
			WeightPriority: []pub.WeightPriorityTerm{{Weight: 1, MatchSelector: metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Perhaps"}},
			}}},
		})},
		{"order by no key", "spec.updateStrategy.rollingUpdate.priorityStrategy.orderPriority[0].orderedKey", "name a label", priority(pub.PriorityStrategy{
			OrderPriority: []pub.OrderPriorityTerm{{}},
		})},
		{"weights and order together", "spec.updateStrategy.rollingUpdate.priorityStrategy", "orderPriority", priority(pub.PriorityStrategy{
			OrderPriority:  []pub.OrderPriorityTerm{{OrderedKey: "a"}},
			WeightPriority: []pub.WeightPriorityTerm{{Weight: 1, MatchSelector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}},
		})},
		{"scatter by no key", "spec.updateStrategy.rollingUpdate.scatterStrategy[0].key", "name a label", ru(func(ru *v1beta1.RollingUpdateCloneSet) {
			ru.ScatterStrategy = []pub.ScatterTerm{{Value: "b"}}
		})},
		{"scatter by the same pair twice", "spec.updateStrategy.rollingUpdate.scatterStrategy[1]", "a=b", ru(func(ru *v1beta1.RollingUpdateCloneSet) {
			ru.ScatterStrategy = []pub.ScatterTerm{{Key: "a", Value: "b"}, {Key: "a", Value: "b"}}
		})},
		{"selector of more values than anybody reads", "spec.selector", "1002: must have at most 1000", func(cs *v1beta1.CloneSet) {
			cs.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpNotIn, Values: many(1000)}}
		}},
		{"weights with more values than anybody reads", "spec.updateStrategy.rollingUpdate.priorityStrategy.weightPriority", "1002: must have at most 1000", priority(pub.PriorityStrategy{
			WeightPriority: []pub.WeightPriorityTerm{{Weight: 1, MatchSelector: metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpIn, Values: many(1001)}},
			}}},
		})},
		{"more to scatter than anybody reads", "spec.updateStrategy.rollingUpdate.scatterStrategy", "1001: must have at most 1000", ru(func(ru *v1beta1.RollingUpdateCloneSet) {
			ru.ScatterStrategy = nil
			for _, value := range many(1001) {
				ru.ScatterStrategy = append(ru.ScatterStrategy, pub.ScatterTerm{Key: "a", Value: value})
			}
		})},
		{"selector that selects everything", "spec.selector", "must select at least one label", func(cs *v1beta1.CloneSet) { cs.Spec.Selector = &metav1.LabelSelector{} }},
		{"template that the selector does not match", "spec.template.metadata.labels", `{"app":"else"}`, func(cs *v1beta1.CloneSet) {
			cs.Spec.Template.Labels = map[string]string{"app": "else"}
		}},
	}
}

// many returns n different values of a label.
func many(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = "v" + strconv.Itoa(i)
	}
	return out
}

func priority(p pub.PriorityStrategy) func(*v1beta1.CloneSet) {
	return rolling(func(ru *v1beta1.RollingUpdateCloneSet) { ru.PriorityStrategy = &p })
}

func refusedReplicas(c *cluster) {
	err := c.Create(c.t.Context(), c.cloneSet("below", -1))
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.replicas") {
		c.t.Errorf("negative replicas: %v", err)
	}
}

func badInput(c *cluster, name, path, value string, spoil func(*v1beta1.CloneSet)) {
	good := c.create(c.cloneSet(name, 2)).Spec
	before := identities(c.pods(name))
	since := c.mark()
	// Besides the invalid value, the change asks for more replicas and another image. The controller must do neither.
	c.change(name, both(setReplicas(3), setImage(0, "example.test/app:v2"), spoil))
	cs := c.until(name, hasCondition(apps.ConditionInvalidSpec, corev1.ConditionTrue, "", path, value))
	if err := observed(cs); err != nil {
		c.t.Error(err)
	}
	c.untilEvent(name, apps.EventFailedUpdate, path, value)
	c.wantWrites("writes to Pods with a spec that cannot be used", name, since, map[string]int{})
	c.change(name, func(cs *v1beta1.CloneSet) {
		cs.Spec = *good.DeepCopy()
		setImage(0, "example.test/app:v2")(cs)
	})
	c.until(name, settled)
	c.until(name, withoutCondition(apps.ConditionInvalidSpec))
	if diff := cmp.Diff(before, identities(c.untilPods(name, images(map[string]int{"v2": 2})))); diff != "" {
		c.t.Errorf("other Pods than before (-before +after):\n%s", diff)
	}
}
