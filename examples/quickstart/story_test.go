package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/statefulset"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kinds/statefulset"
	"github.com/workloadkit/workloadkit/ordinals"
)

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		want string // the name of the workload, or a part of the error
		fail bool
	}{
		{"nothing", nil, "cloneset", false},
		{"cloneset", []string{"--workload", "cloneset"}, "cloneset", false},
		{"statefulset", []string{"--workload=statefulset"}, "statefulset", false},
		{"daemonset", []string{"--workload", "daemonset"}, "daemonset", false},
		{"unknown", []string{"--workload", "job"}, `invalid value "job" for flag -workload: want cloneset, statefulset or daemonset`, true},
		{"empty", []string{"--workload", ""}, `invalid value "" for flag -workload: want cloneset, statefulset or daemonset`, true},
		{"without the flag", []string{"statefulset"}, `argument "statefulset": want flags alone`, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			o, err := parse(tc.args, &out)
			got := o.workload.name
			if err != nil {
				got = err.Error()
			}
			if got != tc.want || (err != nil) != tc.fail {
				t.Errorf("got %q, error %v; want %q", got, err, tc.want)
			}
			if tc.fail && !strings.Contains(out.String(), tc.want) {
				t.Errorf("the user reads %q, want %q", out.String(), tc.want)
			}
		})
	}
	if _, err := parse([]string{"-h"}, &bytes.Buffer{}); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-h gives %v", err)
	}
}

// TestStatefulSetStory: each part begins with the ordinals that the previous part has left, and expects the ordinals
// of its own spec at the end.
func TestStatefulSetStory(t *testing.T) {
	gates := statefulSet().gates
	kind := statefulset.Row().Admission(admission.Options{}).(*admission.Rules[v1beta1.StatefulSet, v1alpha1.StatefulSet])
	ordinalsOf := func(set *v1beta1.StatefulSet) map[string]int {
		wanted, err := api.Ordinals(set, gates[apps.GateStatefulSetStartOrdinal])
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]int{}
		for ordinal := range wanted.All() {
			out[ordinalOf(named(ordinals.Name("web", ordinal)))] = 1
		}
		return out
	}
	set := newStatefulSet()
	if got := listed(ordinalsOf(set)); got != "0,1,2,3" {
		t.Errorf("the StatefulSet begins with ordinals %s", got)
	}
	for _, p := range statefulSetParts() {
		t.Run(p.title, func(t *testing.T) {
			before := ordinalsOf(set)
			p.change(set)
			if refused, err := kind.ValidateCreate(t.Context(), set); len(refused) > 0 || err != nil {
				t.Fatal(refused, err)
			}
			after := ordinalsOf(set)
			want, stay := tally{before: listed(before), after: listed(after)}, 0
			for ordinal := range before {
				stay += after[ordinal]
			}
			want.created, want.deleted = len(after)-stay, len(before)-stay
			got := p.want
			if got.kept+got.recreated != stay {
				t.Errorf("%d kept and %d recreated; %d ordinals stay", got.kept, got.recreated, stay)
			}
			got.kept, got.updated, got.recreated = 0, 0, 0
			if diff := cmp.Diff(want.String(), got.String()); diff != "" {
				t.Errorf("announced (-what the spec asks for +announced):\n%s", diff)
			}
			if p.maxUnavailable == 0 && !strings.HasSuffix(p.title, "-> "+p.want.after) {
				t.Errorf("the title does not end in the ordinals %s", p.want.after)
			}
			if len(p.title) > 79 {
				t.Errorf("the title has %d characters", len(p.title))
			}
		})
	}
}

func named(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{apps.LabelRevision: "web-54ddbf8bbd"}}}
}

// TestNumbered checks for each ordinal the reasons for creating and deleting its Pod.
func TestNumbered(t *testing.T) {
	parts := statefulSetParts()
	set := newStatefulSet()
	at := make([]*v1beta1.StatefulSet, len(parts)+1)
	at[0] = set.DeepCopy()
	for i, p := range parts {
		p.change(set)
		at[i+1] = set.DeepCopy()
	}
	const why = "spec.containers[app].env[MODE] (ImmutableField)"
	for _, tc := range []struct {
		name string
		part int
		pod  string
		want [2]cause // the causes of the creation and of the deletion
	}{
		{"a new ordinal", 0, "web-4", [2]cause{
			{"created", "ordinal 4 is wanted", "created at revision 54ddbf8bbd: ordinal 4 is wanted"},
			{"recreated", why, "deleted to be recreated: " + why},
		}},
		{"reserved", 1, "web-3", [2]cause{
			{"recreated", why, "created at revision 54ddbf8bbd: takes the place of the Pod that was deleted"},
			{"deleted", "ordinal 3 is reserved", "deleted: ordinal 3 is reserved"},
		}},
		{"too many", 2, "web-5", [2]cause{
			{"recreated", why, "created at revision 54ddbf8bbd: takes the place of the Pod that was deleted"},
			{"deleted", "ordinal 5 is not wanted", "deleted: ordinal 5 is not wanted"},
		}},
		{"below the start", 4, "web-2", [2]cause{
			{"recreated", why, "created at revision 54ddbf8bbd: takes the place of the Pod that was deleted"},
			{"deleted", "ordinals start at 3", "deleted: ordinals start at 3"},
		}},
		{"recreated", 6, "web-7", [2]cause{
			{"recreated", why, "created at revision 54ddbf8bbd: takes the place of the Pod that was deleted"},
			{"recreated", why, "deleted to be recreated: " + why},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := numbered(at[tc.part], at[tc.part+1], statefulSet().gates, why)
			if err != nil {
				t.Fatal(err)
			}
			got := [2]cause{c.created(named(tc.pod)), c.deleted(named(tc.pod))}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(cause{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestPlay: if the outcome of a part differs from the expected outcome, the demonstration ends with an error.
func TestPlay(t *testing.T) {
	ready := func(name string) *corev1.Pod {
		pod := named(name)
		pod.Namespace, pod.UID = namespace, types.UID("uid-of-"+name)
		pod.Status.Phase, pod.Status.Conditions = corev1.PodRunning, []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		return pod
	}
	for _, tc := range []struct {
		name           string
		want           tally
		maxUnavailable int
		wrong          string
	}{
		{"as announced", tally{before: "0,1", after: "0,2", kept: 1, created: 1, deleted: 1}, 1, ""},
		{"other ordinals", tally{before: "0,1", after: "0,3", kept: 1, created: 1, deleted: 1}, 0, `"A part": expected 1 Pods kept (0 updated in place), ` +
			`0 recreated, 1 created, 1 deleted, 0,1 -> 0,3; got 1 Pods kept (0 updated in place), 0 recreated, 1 created, 1 deleted, 0,1 -> 0,2`},
		{"recreated in vain", tally{before: "0,1", after: "0,2", recreated: 1, created: 1, deleted: 1}, 0, "expected 0 Pods kept"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "audit.log")
			const write = `{"verb":"create","userAgent":"kruise-manager/x","objectRef":{"resource":"pods"},"responseStatus":{"code":201}}` + "\n"
			if err := os.WriteFile(log, []byte(write), 0o600); err != nil {
				t.Fatal(err)
			}
			c := fake.NewClientBuilder().WithObjects(ready("web-0"), ready("web-2")).Build()
			s := &story{workload: statefulSet(), client: c, world: newWorld(ordinalOf), auditLog: log}
			s.screen = &lines{out: &bytes.Buffer{}, world: s.world}
			s.world.observe(watch.Added, ready("web-0"))
			s.world.observe(watch.Added, ready("web-1"))
			err := s.list(t.Context(), part{
				title: "A part", want: tc.want, maxUnavailable: tc.maxUnavailable,
				act: func(ctx context.Context) error {
					s.world.observe(watch.Deleted, ready("web-1"))
					var pods corev1.PodList
					err := c.List(ctx, &pods)
					for i := range pods.Items {
						s.world.observe(watch.Modified, &pods.Items[i])
					}
					return err
				},
				settled: func(context.Context) (bool, error) { return true, nil },
			})
			switch {
			case tc.wrong == "" && err != nil:
				t.Error(err)
			case tc.wrong != "" && (err == nil || !strings.Contains(err.Error(), tc.wrong)):
				t.Errorf("got %v, want %s", err, tc.wrong)
			case tc.wrong == "":
				var out bytes.Buffer
				s.out = &out
				s.summary()
				for _, want := range []string{
					"A part\n", "ordinals:       0,1 -> 0,2\n", "Pods created:   1, and 1 deleted for good\n",
					"out of service: 1 at a time\n", "writes per Pod: 0.5 for each of 2 (1 create pods)\n",
				} {
					if !strings.Contains(out.String(), want) {
						t.Errorf("summary lacks %q:\n%s", want, out.String())
					}
				}
			}
		})
	}
	r := result{part: part{maxUnavailable: 2}, unavailable: 3}
	if err := r.check(); err == nil || err.Error() != "3 Pods were out of service at a time, expected 2 at most" {
		t.Errorf("three of two: %v", err)
	}
}
