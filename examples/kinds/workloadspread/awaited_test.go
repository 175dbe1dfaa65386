package workloadspread

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// rulesFor returns the rules of a webhook for an operation on a resource.
func rulesFor(operation admissionregistrationv1.OperationType, group, resource string) []admissionregistrationv1.RuleWithOperations {
	return []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{operation},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, Resources: []string{resource}},
	}}
}

func TestFlightOf(t *testing.T) {
	create := admissionregistrationv1.Create
	mutating := func(name string, w ...admissionregistrationv1.MutatingWebhook) admissionregistrationv1.MutatingWebhookConfiguration {
		return admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: w}
	}
	validating := func(rules []admissionregistrationv1.RuleWithOperations, seconds *int32) admissionregistrationv1.ValidatingWebhookConfiguration {
		return admissionregistrationv1.ValidatingWebhookConfiguration{Webhooks: []admissionregistrationv1.ValidatingWebhook{{Rules: rules, TimeoutSeconds: seconds}}}
	}
	pods := rulesFor(create, "", "pods")
	for _, tc := range []struct {
		name       string
		mutating   []admissionregistrationv1.MutatingWebhookConfiguration
		validating []admissionregistrationv1.ValidatingWebhookConfiguration
		want       flight
	}{
		{"WS-60 no further webhook", nil, nil, flight{5 * time.Second, 20 * time.Second}},
		{
			"the own webhook", []admissionregistrationv1.MutatingWebhookConfiguration{
				mutating(own, admissionregistrationv1.MutatingWebhook{Rules: pods, TimeoutSeconds: ptr.To(int32(30))}),
			}, nil, flight{5 * time.Second, 20 * time.Second},
		},
		{
			"mutating webhooks are asked in turn, and again", []admissionregistrationv1.MutatingWebhookConfiguration{
				mutating("a", admissionregistrationv1.MutatingWebhook{Rules: pods, TimeoutSeconds: ptr.To(int32(2))}),
				mutating("b", admissionregistrationv1.MutatingWebhook{
					Rules: rulesFor("*", "*", "*/*"), TimeoutSeconds: ptr.To(int32(3)), ReinvocationPolicy: ptr.To(admissionregistrationv1.IfNeededReinvocationPolicy),
				}),
			}, nil, flight{13 * time.Second, 20 * time.Second},
		},
		{
			"validating webhooks are asked at the same time", nil, []admissionregistrationv1.ValidatingWebhookConfiguration{
				validating(pods, ptr.To(int32(4))), validating(rulesFor(create, "", "pods/*"), nil), validating(pods, ptr.To(int32(5))),
			}, flight{5 * time.Second, 30 * time.Second},
		},
		{
			"webhooks for others", []admissionregistrationv1.MutatingWebhookConfiguration{
				mutating("a", admissionregistrationv1.MutatingWebhook{Rules: rulesFor(admissionregistrationv1.Update, "", "pods")},
					admissionregistrationv1.MutatingWebhook{Rules: rulesFor(create, "apps", "*")}),
			}, []admissionregistrationv1.ValidatingWebhookConfiguration{validating(rulesFor(create, "", "pods/eviction"), nil)}, flight{5 * time.Second, 20 * time.Second},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := flightOf(tc.mutating, tc.validating); got != tc.want {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}

// storedPods is a reader with Pods and a validating webhook configuration.
type storedPods struct {
	client.Reader

	pods    []metav1.PartialObjectMetadata
	timeout int32
	refused error
	asked   int // how often Pods were listed
}

func (s *storedPods) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch list := list.(type) {
	case *metav1.PartialObjectMetadataList:
		s.asked++
		list.Items = s.pods
	case *admissionregistrationv1.ValidatingWebhookConfigurationList:
		if s.timeout > 0 {
			list.Items = []admissionregistrationv1.ValidatingWebhookConfiguration{{Webhooks: []admissionregistrationv1.ValidatingWebhook{{
				Rules: rulesFor(admissionregistrationv1.Create, "", "pods"), TimeoutSeconds: &s.timeout,
			}}}}
		}
		return s.refused
	}
	return nil
}

// TestAwait: if a Pod is not created, the Pod's place in the subset is free again after the longest time that the
// request for the Pod may last.
func TestAwait(t *testing.T) {
	begin := time.Unix(1_000_000, 0)
	since := func(seconds int) metav1.Time { return metav1.NewTime(begin.Add(time.Duration(seconds) * time.Second)) }
	marked := metav1.ObjectMeta{Name: "web-1", Annotations: map[string]string{apps.AnnotationMatchedWorkloadSpread: `{"name":"web","subset":"a","uid":"k"}`}}
	type look struct {
		at     int // seconds
		taken  metav1.Time
		cached bool
		again  int
		absent bool
	}
	forbidden := apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no right"))
	for _, tc := range []struct {
		name   string
		server storedPods
		looks  []look
		asked  int
	}{
		{"nobody comes", storedPods{}, []look{{0, since(-100), false, 27, false}, {4, since(-100), false, 23, false}, {27, since(-100), false, 0, true}}, 1},
		{"a further webhook", storedPods{timeout: 5}, []look{{0, since(0), false, 27, false}, {27, since(0), false, 5, false}, {32, since(0), false, 0, true}}, 1},
		{"many further webhooks", storedPods{timeout: 60}, []look{{0, since(0), false, 27, false}, {42, since(0), false, 1, false}, {43, since(0), false, 0, true}}, 1},
		{"an earlier process saw the place", storedPods{}, []look{{60, since(0), false, 27, false}}, 0},
		{"a renewed place", storedPods{}, []look{{0, since(0), false, 27, false}, {26, since(26), false, 27, false}, {27, since(26), false, 26, false}}, 0},
		{"a Pod is cached", storedPods{}, []look{{0, since(0), false, 27, false}, {27, since(0), true, 0, false}}, 0},
		{
			"the cache is late",
			storedPods{pods: []metav1.PartialObjectMetadata{{ObjectMeta: marked}}},
			[]look{{0, since(0), false, 27, false}, {27, since(0), false, 27, false}, {40, since(0), false, 14, false}, {54, since(0), true, 0, false}},
			1,
		},
		{"webhooks may not be read", storedPods{refused: forbidden}, []look{{0, since(0), false, 27, false}, {60, since(0), false, 0, false}}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(begin)
			f := &finder{live: &tc.server, clock: clock, recent: map[string]recently{}}
			var before map[awaitedPod]time.Time
			for _, l := range tc.looks {
				clock.SetTime(begin.Add(time.Duration(l.at) * time.Second))
				spread := &v1beta1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
				spread.Status.VersionedSubsetStatuses = ledger{ignored: {{Name: "a", CreatingPods: times{"k": l.taken}}}}
				pods := &crowd{}
				if l.cached {
					pods.marked = map[string][]*entry{ignored: {{pod: &corev1.Pod{ObjectMeta: marked}, mark: mark{UID: "k"}}}}
				}
				now := unseen(spread, pods)
				absent, again, err := f.look(t.Context(), spread, clock.Now(), before, now)
				if err != nil {
					t.Fatal(err)
				}
				before = now
				got := look{l.at, l.taken, l.cached, int(again / time.Second), absent[awaitedUnder("k", l.taken.Time)]}
				if diff := cmp.Diff(l, got, cmp.AllowUnexported(look{})); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
			if tc.server.asked != tc.asked {
				t.Errorf("the API server was asked %d times, want %d", tc.server.asked, tc.asked)
			}
		})
	}
}
