package inplaceupdate_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/reason"
)

func TestNew(t *testing.T) {
	type keys = inplaceupdate.Keys
	for _, tc := range []struct {
		name string
		keys keys
		want []string
	}{
		{"nothing", keys{}, []string{"InvalidConfig Keys.StateAnnotation", "InvalidConfig Keys.GraceAnnotation"}},
		{"no grace", keys{StateAnnotation: "s"}, []string{"InvalidConfig Keys.GraceAnnotation"}},
		{"no state", keys{GraceAnnotation: "g"}, []string{"InvalidConfig Keys.StateAnnotation"}},
		{"what is required", keys{StateAnnotation: "s", GraceAnnotation: "g"}, nil},
		{"everything", keys{
			StateAnnotation: "example.com/s", GraceAnnotation: "Example.com/G", LegacyStateAnnotation: "s", LegacyGraceAnnotation: "g",
			RuntimeMetaAnnotation: "m", Gate: "example.com/Gate", Reserved: []string{"example.com/s", "example.com/revision", "Label"},
		}, nil},
		{"one annotation for two", keys{StateAnnotation: "a", GraceAnnotation: "a"}, []string{"InvalidConfig Keys.GraceAnnotation"}},
		{"the old one is the new one", keys{StateAnnotation: "s", GraceAnnotation: "g", LegacyStateAnnotation: "s"}, []string{"InvalidConfig Keys.LegacyStateAnnotation"}},
		{"each use of it", keys{StateAnnotation: "s", GraceAnnotation: "g", LegacyGraceAnnotation: "s", RuntimeMetaAnnotation: "g"}, []string{
			"InvalidConfig Keys.LegacyGraceAnnotation", "InvalidConfig Keys.RuntimeMetaAnnotation",
		}},
		{"names that no annotation can have", keys{StateAnnotation: "a b", GraceAnnotation: "/g", LegacyStateAnnotation: "a/b/c", RuntimeMetaAnnotation: "ü"}, []string{
			"InvalidConfig Keys.StateAnnotation", "InvalidConfig Keys.GraceAnnotation", "InvalidConfig Keys.LegacyStateAnnotation",
			"InvalidConfig Keys.RuntimeMetaAnnotation",
		}},
		{"a gate that no Pod can have", keys{StateAnnotation: "s", GraceAnnotation: "g", Gate: "a b"}, []string{"InvalidConfig Keys.Gate"}},
		{"reserved names", keys{StateAnnotation: "s", GraceAnnotation: "g", Reserved: []string{"ok", "", "a b"}}, []string{
			"InvalidConfig Keys.Reserved[1]", "InvalidConfig Keys.Reserved[2]",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			updater, err := inplaceupdate.New(inplaceupdate.Config{Keys: tc.keys})
			if diff := cmp.Diff(tc.want, codesAndPaths(reason.From(err))); diff != "" || (updater == nil) != (tc.want != nil) {
				t.Errorf("New = %v, problems (-want +got):\n%s", updater, diff)
			}
			for _, why := range reason.From(err) {
				if why.Detail == "" {
					t.Errorf("says too little: %v", why)
				}
			}
		})
	}
}

// TestConfigIsCopied: after New, changes of the caller's Config have no effect on the Updater.
func TestConfigIsCopied(t *testing.T) {
	config := inplaceupdate.Config{Keys: inplaceupdate.Keys{StateAnnotation: "s", GraceAnnotation: "g", Reserved: []string{"mine"}}}
	updater := mustNew(config)
	config.Keys.Reserved[0] = "yours"
	if got := codesAndPaths(updater.ValidateTemplate(newTemplate(label("mine", "1"), label("yours", "1")))); !cmp.Equal(got, []string{"ReservedKey metadata.labels[mine]"}) {
		t.Errorf("reserved: %v", got)
	}
}

// TestZeroUpdater: a zero Updater would write annotations without a name.
func TestZeroUpdater(t *testing.T) {
	pod := newPod(newTemplate())
	for name, updater := range map[string]*inplaceupdate.Updater{"zero": {}, "nil": nil} {
		change, startErr := updater.Start(pod, &inplaceupdate.Plan{}, toward("2", 0), now)
		step, nextErr := updater.Next(pod, now)
		_, stateErr := updater.State(pod)
		for what, err := range map[string]error{"Start": startErr, "Next": nextErr, "State": stateErr} {
			if !errors.Is(err, inplaceupdate.InvalidConfig) {
				t.Errorf("%s: %s = %v", name, what, err)
			}
		}
		if plan := updater.Plan(newTemplate(), newTemplate()); !errors.Is(plan.Blocking, inplaceupdate.InvalidConfig) {
			t.Errorf("%s: Plan = %+v", name, plan)
		}
		if !change.IsEmpty() || !step.Change.IsEmpty() || step.Complete || updater.InGracePeriod(pod) {
			t.Errorf("%s: %+v, %+v", name, change, step)
		}
	}
}

func TestStartChecksItsArguments(t *testing.T) {
	updater := newUpdater(func(c *inplaceupdate.Config) { c.Keys.Reserved = []string{"revision"} })
	plan := updater.Plan(newTemplate(), newTemplate(image("app", "app:v2")))
	target := func(edit func(*inplaceupdate.Target)) inplaceupdate.Target {
		out := inplaceupdate.Target{Revision: "2", Labels: map[string]string{"revision": "web-2"}, GracePeriod: time.Second}
		edit(&out)
		return out
	}
	same := func(*inplaceupdate.Target) {}
	for _, tc := range []struct {
		name   string
		plan   *inplaceupdate.Plan
		target inplaceupdate.Target
		at     time.Time
		want   []string
	}{
		{"all is well", plan, target(same), now, nil},
		{"no labels, on purpose", plan, target(func(t *inplaceupdate.Target) { t.Labels = map[string]string{} }), now, nil},
		{"no plan", nil, target(same), now, []string{"InvalidArgument plan"}},
		{"no time", plan, target(same), time.Time{}, []string{"InvalidArgument now"}},
		{"an empty target", plan, inplaceupdate.Target{}, now, []string{"InvalidArgument target.revision", "InvalidArgument target.labels"}},
		{"no labels", plan, target(func(t *inplaceupdate.Target) { t.Labels = nil }), now, []string{"InvalidArgument target.labels"}},
		{"a label that templates may change", plan, target(func(t *inplaceupdate.Target) { t.Labels["x"] = "1" }), now, []string{"InvalidArgument target.labels[x]"}},
		{"a negative grace period", plan, target(func(t *inplaceupdate.Target) { t.GracePeriod = -1 }), now, []string{"InvalidArgument target.gracePeriod"}},
		{"the longest grace period", plan, target(func(t *inplaceupdate.Target) { t.GracePeriod = math.MaxInt32 * time.Second }), now, nil},
		{"one that is longer", plan, target(func(t *inplaceupdate.Target) { t.GracePeriod = math.MaxInt32*time.Second + 1 }), now, []string{"InvalidArgument target.gracePeriod"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			change, err := updater.Start(newPod(newTemplate()), tc.plan, tc.target, tc.at)
			if diff := cmp.Diff(tc.want, codesAndPaths(reason.From(err))); diff != "" || change.IsEmpty() != (tc.want != nil) {
				t.Errorf("Start = %+v, problems (-want +got):\n%s", change, diff)
			}
		})
	}
	if step, err := updater.Next(newPod(newTemplate()), time.Time{}); !errors.Is(err, inplaceupdate.InvalidArgument) || step.Complete {
		t.Errorf("Next at no time = %+v, %v", step, err)
	}
}

// TestGracePeriodIsRoundedUp: the annotations store the period and its start in whole seconds.
func TestGracePeriodIsRoundedUp(t *testing.T) {
	updater := newUpdater()
	from, to := newTemplate(), newTemplate(image("app", "app:v2"))
	for _, tc := range []struct{ asked, runs time.Duration }{{1, 2 * time.Second}, {time.Second, 2 * time.Second}, {time.Second + 1, 3 * time.Second}} {
		pod, target := newPod(from), toward("2", 0)
		target.GracePeriod = tc.asked
		pod = write(t, pod, mustStart(t, updater, pod, from, to, target, now))
		if step := mustNext(t, updater, pod, now); step.RequeueAfter != tc.runs {
			t.Errorf("a grace period of %v ends after %v, want %v", tc.asked, step.RequeueAfter, tc.runs)
		}
	}
}

// TestStartWritesTheLabels: the first write sets the labels of the target together with the plan's labels. If a plan
// sets the same label, the target's value counts.
func TestStartWritesTheLabels(t *testing.T) {
	updater := newUpdater(func(c *inplaceupdate.Config) { c.Keys.Reserved = []string{"revision", "hash"} })
	from, to := newTemplate(), newTemplate(image("app", "app:v2"), label("x", "1"))
	for _, tc := range []struct {
		name  string
		plan  *inplaceupdate.Plan
		grace time.Duration
		want  map[string]*string
	}{
		{"beside the template's", updater.Plan(from, to), 0, keys("revision", "web-2", "hash", "2", "x", "1")},
		{"before a grace period, which holds the template's back", updater.Plan(from, to), time.Minute, keys("revision", "web-2", "hash", "2")},
		{"metadata alone", updater.Plan(from, newTemplate(label("x", "1"))), time.Minute, keys("revision", "web-2", "hash", "2", "x", "1")},
		{"nothing else", updater.Plan(from, from), 0, keys("revision", "web-2", "hash", "2")},
		{"another's plan", &inplaceupdate.Plan{Labels: keys("revision", "forged", "x", "1")}, 0, keys("revision", "web-2", "hash", "2", "x", "1")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			labels := len(tc.plan.Labels)
			target := inplaceupdate.Target{Revision: "web-2", Labels: map[string]string{"revision": "web-2", "hash": "2"}, GracePeriod: tc.grace}
			change, err := updater.Start(newPod(from), tc.plan, target, now)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, change.Labels); diff != "" || len(tc.plan.Labels) != labels {
				t.Errorf("labels, of a plan that has %d now and had %d (-want +got):\n%s", len(tc.plan.Labels), labels, diff)
			}
		})
	}
}

// TestErrorsCarryCodes: errors.Is finds every returned error by its code and by the codes of its wrapped reasons.
func TestErrorsCarryCodes(t *testing.T) {
	updater, base := newUpdater(), newTemplate()
	blocked := updater.Plan(base, newTemplate(image("setup", "setup:v2"), func(t *template) { t.Spec.HostNetwork = true }))
	_, err := updater.Start(newPod(base), blocked, toward("2", 0), now)
	for _, code := range []reason.Code{inplaceupdate.UpdateBlocked, inplaceupdate.ImmutableField, inplaceupdate.InitContainerImage} {
		if !errors.Is(err, code) {
			t.Errorf("%v is not %s", err, code)
		}
	}
	if err := blocked.Blocking.Err(); !errors.Is(err, inplaceupdate.ImmutableField) || errors.Is(err, inplaceupdate.UpdateBlocked) {
		t.Errorf("the plan's own error: %v", err)
	}
	if plan := updater.Plan(nil, base); plan.Possible() || !errors.Is(plan.Blocking, inplaceupdate.RevisionMissing) {
		t.Errorf("Plan from nothing = %+v", plan)
	}
	if plan := updater.Plan(base, nil); plan.Possible() || !errors.Is(plan.Blocking, inplaceupdate.RevisionMissing) {
		t.Errorf("Plan to nothing = %+v", plan)
	}
	pod := newPod(base)
	pod.Annotations[stateKey] = "{"
	_, startErr := updater.Start(pod, updater.Plan(base, base), toward("2", 0), now)
	_, nextErr := updater.Next(pod, now)
	_, stateErr := updater.State(pod)
	for what, err := range map[string]error{"Start": startErr, "Next": nextErr, "State": stateErr} {
		if !errors.Is(err, inplaceupdate.UnreadableState) || len(reason.From(err)) != 1 {
			t.Errorf("%s with an unreadable state = %v", what, err)
		}
	}
}

func TestState(t *testing.T) {
	updater := newUpdater()
	from := newTemplate(priority(0, 10), priority(1, 0))
	to := newTemplate(priority(0, 10), priority(1, 0), image("app", "app:v2"), image("log", "log:v2"))
	pod := newPod(from)
	look := func(at time.Time) *inplaceupdate.State {
		t.Helper()
		state, err := updater.State(pod)
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	if state := look(now); state != nil {
		t.Errorf("a Pod that was never updated: %+v", state)
	}
	later := after(time.Minute)
	pod = write(t, pod, mustStart(t, updater, pod, from, to, toward("2", 0), now))
	first := inplaceupdate.Batch{At: now, Containers: []string{"app"}}
	if diff := cmp.Diff(&inplaceupdate.State{Revision: "2", Started: now, Batches: []inplaceupdate.Batch{first}, Postponed: []string{"log"}}, look(now)); diff != "" {
		t.Errorf("U-18 after the start (-want +got):\n%s", diff)
	}
	catchUp(pod)
	pod = write(t, pod, mustNext(t, updater, pod, later).Change)
	second := inplaceupdate.Batch{At: later, Containers: []string{"log"}}
	if diff := cmp.Diff(&inplaceupdate.State{Revision: "2", Started: now, Batches: []inplaceupdate.Batch{first, second}}, look(now)); diff != "" {
		t.Errorf("U-20 after the second batch (-want +got):\n%s", diff)
	}
}

// TestChangesOfOneOwnerMerge: podpatch can merge Start's change with changes of other labels by the same operator.
func TestChangesOfOneOwnerMerge(t *testing.T) {
	updater := operatorKeys()
	from, to := newTemplate(label("revision", "a")), newTemplate(label("revision", "b"), image("app", "app:v2"))
	pod := newPod(from)
	target := inplaceupdate.Target{Revision: "2", Labels: map[string]string{"revision": "web-2"}}
	change := mustStart(t, updater, pod, from, to, target, now)
	patches, err := podpatch.Merge(pod, now, change, podpatch.Change{Labels: keys("state", "Updating")})
	if err != nil || len(patches.Requests) != 2 {
		t.Fatalf("Merge = %v, %v", patches, err)
	}
	pod = write(t, pod, change)
	if pod.Labels["revision"] != "web-2" || isReady(pod) {
		t.Errorf("labels %v, conditions %v", pod.Labels, pod.Status.Conditions)
	}
}

func isReady(pod *corev1.Pod) bool {
	ready, known := podpatch.Ready(pod, nil)
	return known && ready.Status == corev1.ConditionTrue
}

// operatorKeys is the configuration of an operator with the label "revision" and the annotation "since".
func operatorKeys() *inplaceupdate.Updater {
	return newUpdater(func(c *inplaceupdate.Config) { c.Keys.Reserved = []string{"revision", "since"} })
}

// TestReservedKeys: values of reserved keys in a template do not change a Pod.
func TestReservedKeys(t *testing.T) {
	reads := env(0, fromLabel("REVISION", "revision"), fromAnnotation("SINCE", "since"), fromAnnotation("STATE", stateKey))
	for _, tc := range []struct {
		name     string
		from, to *template
		want     podpatch.Change
	}{
		{"a label is added", newTemplate(), newTemplate(label("revision", "mine")), podpatch.Change{}},
		{"a label is removed", newTemplate(label("revision", "mine")), newTemplate(), podpatch.Change{}},
		{"an annotation of the operator's", newTemplate(), newTemplate(annotation("since", "today")), podpatch.Change{}},
		{"annotations of this package", newTemplate(), newTemplate(annotation(stateKey, "{"), annotation(graceKey, "{"), annotation(oldState, "{"), annotation(oldGrace, "{"), annotation(metaKey, "{")), podpatch.Change{}},
		{"a container reads them", newTemplate(reads), newTemplate(reads, label("revision", "mine"), annotation("since", "today"), annotation(stateKey, "{")), podpatch.Change{}},
		{"others beside them", newTemplate(label("revision", "mine")), newTemplate(label("revision", "yours"), label("x", "1"), annotation("y", "2")), podpatch.Change{Labels: keys("x", "1"), Annotations: keys("y", "2")}},
		{"a label that is named as an annotation of this package", newTemplate(), newTemplate(label(stateKey, "1")), podpatch.Change{Labels: keys(stateKey, "1")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			updater := operatorKeys()
			plan := updater.Plan(tc.from, tc.to)
			got := podpatch.Change{Labels: plan.Labels, Annotations: plan.Annotations}
			if len(got.Labels) == 0 {
				got.Labels = nil
			}
			if len(got.Annotations) == 0 {
				got.Annotations = nil
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || len(plan.RefMetadata) > 0 || !plan.Possible() {
				t.Errorf("blocking %v, read by containers %v, delivered (-want +got):\n%s", plan.Blocking, plan.RefMetadata, diff)
			}
			// An operator sends the change together with its own label.
			change := mustStart(t, updater, newPod(tc.from), tc.from, tc.to, toward("2", 0), now)
			if _, err := podpatch.Merge(newPod(tc.from), now, change, podpatch.Change{Labels: keys("revision", "web-2")}); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestValidateTemplate(t *testing.T) {
	for _, tc := range []struct {
		name     string
		template *template
		want     []string
	}{
		{"nothing", newTemplate(label("x", "1"), annotation("y", "2")), nil},
		{"an empty template", &template{}, nil},
		{
			"all of it", newTemplate(label("revision", "mine"), annotation("since", "today"), annotation(stateKey, "{"), annotation(oldGrace, "{")),
			[]string{
				"ReservedKey metadata.labels[revision]", "ReservedKey metadata.annotations[" + stateKey + "]", "ReservedKey metadata.annotations[since]",
				"ReservedKey metadata.annotations[" + oldGrace + "]",
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			list := operatorKeys().ValidateTemplate(tc.template)
			if diff := cmp.Diff(tc.want, codesAndPaths(list)); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
			for _, why := range list {
				if why.New == "" || why.Remedy == "" || why.Detail == "" {
					t.Errorf("says too little: %+v", why)
				}
			}
			pod := &corev1.Pod{ObjectMeta: *tc.template.ObjectMeta.DeepCopy()}
			operatorKeys().StripReserved(&pod.ObjectMeta)
			if left := operatorKeys().ValidateTemplate(&template{ObjectMeta: pod.ObjectMeta}); len(left) > 0 || len(pod.Labels) < len(tc.template.Labels)-1 {
				t.Errorf("a Pod made of it has %v %v", pod.Labels, pod.Annotations)
			}
		})
	}
}

// TestAnnotationsThatCannotChange: each annotation is one that ValidatePodSpecificAnnotationUpdates of Kubernetes
// 1.36 does not allow to change.
func TestAnnotationsThatCannotChange(t *testing.T) {
	const appArmor, mirror = "container.apparmor.security.beta.kubernetes.io/app", "kubernetes.io/config.mirror"
	for _, tc := range []struct {
		name     string
		from, to *template
		want     []string
	}{
		{"added", newTemplate(), newTemplate(annotation(appArmor, "unconfined")), []string{"ImmutableField metadata.annotations[" + appArmor + "]"}},
		{"changed", newTemplate(annotation(appArmor, "runtime/default")), newTemplate(annotation(appArmor, "unconfined")), []string{"ImmutableField metadata.annotations[" + appArmor + "]"}},
		{"removed", newTemplate(annotation(appArmor, "runtime/default")), newTemplate(), []string{"ImmutableField metadata.annotations[" + appArmor + "]"}},
		{"left alone", newTemplate(annotation(appArmor, "runtime/default")), newTemplate(annotation(appArmor, "runtime/default"), annotation("x", "1")), nil},
		{"a mirror Pod's, and both sorted", newTemplate(), newTemplate(annotation(mirror, "x"), annotation(appArmor, "unconfined")), []string{"ImmutableField metadata.annotations[" + appArmor + "]", "ImmutableField metadata.annotations[" + mirror + "]"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, codesAndPaths(newUpdater().Plan(tc.from, tc.to).Blocking)); diff != "" {
				t.Errorf("blocking (-want +got):\n%s", diff)
			}
		})
	}
}
