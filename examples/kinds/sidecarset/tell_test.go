package sidecarset

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout"
	"github.com/workloadkit/workloadkit/sidecarcontrol"
	"github.com/workloadkit/workloadkit/sidecarcontrol/upgrader"
)

// everlasting implements ownercache.Followed for owners that are never deleted.
type everlasting struct{}

func (everlasting) Exists(types.UID) bool  { return true }
func (everlasting) OnGone(func(types.UID)) {}

// TestHeldUp: if Pods with unready sidecars use up the budget, a single event says so.
func TestHeldUp(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	pod := func(name string, unreadyFor time.Duration) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{
				Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(now.Add(-unreadyFor)),
			}}},
		}
	}
	failing := func(pod *corev1.Pod) sidecarcontrol.Standing {
		return sidecarcontrol.Standing{Pod: pod, Failing: reason.List{{Code: sidecarcontrol.SidecarNotReady, Path: "spec.containers[log]", Detail: "it waits: ImagePullBackOff"}}}
	}
	limited := reason.List{{Code: rollout.UpdateLimited, Path: "spec.updateStrategy.maxUnavailable", New: "1", Detail: "3 Pods wait"}}
	slow, slower, quick := failing(pod("slow", 40*time.Second)), failing(pod("slower", time.Minute)), failing(pod("quick", 10*time.Second))
	well := sidecarcontrol.Standing{Pod: pod("well", time.Hour)}
	text := "Warning UpgradeHeldUp UpdateLimited: spec.updateStrategy.maxUnavailable: 1: 3 Pods wait; out of service, among others, is Pod shop/slower: " +
		"SidecarNotReady: spec.containers[log]: it waits: ImagePullBackOff"
	updated := sidecarcontrol.Standing{Pod: pod("updated", time.Minute), Updated: true}
	alone := "Warning UpgradeHeldUp UpdateLimited: spec.updateStrategy.maxUnavailable: 1: 3 Pods wait; out of service, among others, is Pod shop/updated: " +
		"it is not Ready, though its sidecars are"
	kept := reason.List{{Code: rollout.PartitionReached, Path: "spec.updateStrategy.partition", New: "2", Detail: "2 Pods wait"}}
	for _, tc := range []struct {
		name   string
		limits reason.List
		pods   []sidecarcontrol.Standing
		want   string
		wait   time.Duration
	}{
		{"nothing is limited", nil, []sidecarcontrol.Standing{slower}, "", 0},
		{"the partition keeps them", kept, []sidecarcontrol.Standing{slower}, "", 0},
		{"the sidecars of none fail", limited, []sidecarcontrol.Standing{well}, "", 0},
		{"not yet for long", limited, []sidecarcontrol.Standing{well, quick}, "", 20 * time.Second},
		{"the application of one is not ready", limited, []sidecarcontrol.Standing{well, updated}, alone, 0},
		{"for long", limited, []sidecarcontrol.Standing{slow, slower, quick, well}, text, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			events := record.NewFakeRecorder(9)
			r := &Reconciler{events: events, told: ownercache.NewMemory[told](everlasting{})}
			v := &view{Owner: &v1beta1.SidecarSet{ObjectMeta: metav1.ObjectMeta{Name: "log", UID: "log", Generation: 1}}, Now: now}
			work := upgrader.Work{Pods: tc.pods, Choice: sidecarcontrol.Choice{Limits: tc.limits}}
			tell := func() (string, time.Duration) {
				wait := r.tell(v, told{}, work)
				select {
				case event := <-events.Events:
					return event, wait
				default:
					return "", wait
				}
			}
			got, wait := tell()
			if diff := cmp.Diff(tc.want, got); diff != "" || wait != tc.wait {
				t.Errorf("look again after %v, want %v; (-want +got):\n%s", wait, tc.wait, diff)
			}
			if again, _ := tell(); again != "" {
				t.Errorf("told a second time: %s", again)
			}
			v.Owner.Generation++
			if again, _ := tell(); again != tc.want {
				t.Errorf("of the next version was told %q", again)
			}
		})
	}
}
