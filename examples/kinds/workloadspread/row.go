package workloadspread

import (
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	webhookadmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/examples/kruise/metrics"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/sidecarcontrol/podwebhook"
)

// Row describes the kind to the code that all kinds share.
func Row() kind.Row {
	workers, one := 3, &parts{versioned: "deployment,replicaset"}
	return kind.Row{
		Kind: v1beta1.GroupVersion.WithKind("WorkloadSpread"), Resource: "workloadspreads", Converted: true, Released: "v1alpha1",
		AddToScheme: v1beta1.AddToScheme,
		Controller:  ControllerName, Workers: &workers,
		Metrics: metrics.Work{Things: "pods", Label: "action", Help: "Pods, by what was done to them: marked, rescheduled."}.Metrics,
		Gates:   []apps.Gate{apps.GateWorkloadSpread},
		Flags: func(fs *pflag.FlagSet) {
			fs.StringVar(&one.versioned, "ws-enabled-versioned-status", one.versioned, "kinds of Pods' controllers whose revisions have the places of all subsets each, in small letters")
		},
		Cached:    []kind.Cached{{Object: &appsv1.ReplicaSet{}, Keep: keepNumber}},
		PodFields: podFields,
		Setup: func(ctx context.Context, mgr ctrl.Manager, c client.Client, options kruise.Options) error {
			options = options.Complete()
			w, err := one.get(ctx, mgr, options.ManagerNamespace, options.Gates)
			if err != nil {
				return err
			}
			return setup(ctx, mgr, c, options, w)
		},
		PodMutator: func(ctx context.Context, mgr ctrl.Manager, in kind.PodInputs) (podwebhook.Mutator, error) {
			if !in.Gates[apps.GateWorkloadSpread] {
				return (&webhook{}).step(false, nil), nil
			}
			w, err := one.get(ctx, mgr, in.Namespace, in.Gates)
			if err != nil {
				return podwebhook.Mutator{}, err
			}
			return w.step(true, in.Current), nil
		},
		PodLeaves: func(ctx context.Context, mgr ctrl.Manager, in kind.PodInputs) (webhookadmission.Handler, error) {
			w, err := one.get(ctx, mgr, in.Namespace, in.Gates)
			if err != nil {
				return nil, err
			}
			return w.leaves(mgr.GetAPIReader()), nil
		},
		PodComes: func(ctx context.Context, mgr ctrl.Manager, in kind.PodInputs) (webhookadmission.Handler, error) {
			w, err := one.get(ctx, mgr, in.Namespace, in.Gates)
			if err != nil {
				return nil, err
			}
			return w.comes(), nil
		},
		Rights: kind.Rights{
			Objects: []string{"get", "list", "watch"}, Status: true,
			Why: "The status has the places of the subsets.",
			More: []kind.Right{
				{
					Group: "apps", Resources: []string{"deployments", "replicasets", "statefulsets"}, Verbs: []string{"get", "list", "watch"},
					Why: "Targets, and the owners of Pods. Further kinds, listed in kruise-configuration, have to be granted apart: get.",
				},
				{Group: "batch", Resources: []string{"jobs"}, Verbs: []string{"get"}, Why: "The wanted number of Pods of a target."},
				{
					Group: "admissionregistration.k8s.io", Resources: []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"}, Verbs: []string{"list"},
					Why: "How long the request of an admitted Pod may last: the webhooks' timeouts.",
				},
			},
		},
		Admission: func(options admission.Options) admission.Endpoint { return endpoint(options) },
	}
}

// parts are the objects that the webhook and the controller of a manager share, so that both write the status through
// the same queue.
type parts struct {
	versioned string

	mu      sync.Mutex
	webhook *webhook
}

func (p *parts) get(ctx context.Context, mgr ctrl.Manager, namespace string, gates map[apps.Gate]bool) (*webhook, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.webhook != nil {
		return p.webhook, nil
	}
	kinds, err := follow(ctx, mgr, namespace)
	if err != nil {
		return nil, err
	}
	p.webhook, err = newWebhook(ctx, mgr, kinds, gates, p.versioned, clock.RealClock{})
	return p.webhook, err
}

func newWebhook(ctx context.Context, mgr ctrl.Manager, kinds *listed, gates map[apps.Gate]bool, versioned string, now clock.PassiveClock) (*webhook, error) {
	found, err := newFinder(ctx, mgr, mgr.GetClient(), kinds, gates, now)
	if err != nil {
		return nil, err
	}
	of := strings.Split(strings.ToLower(versioned), ",")
	w := &webhook{
		finder: found, spares: newSpares(now), newKey: func() string { return rand.Text()[:keyLength] },
		versioned: func(kind string) bool { return slices.Contains(of, kind) },
	}
	if w.statuses, err = newStatuses(mgr.GetClient(), mgr.GetAPIReader(), now); err != nil {
		return nil, err
	}
	return w, mgr.Add(w)
}

// keepNumber copies, for the cache, the revision number that a ReplicaSet has in its Deployment.
func keepNumber(kept, found client.Object) {
	if number, ok := found.GetAnnotations()[annotationRevision]; ok {
		kept.SetAnnotations(map[string]string{annotationRevision: number})
	}
}

// podFields copies into the cache the fields that the controller needs of a Pod with a mark, the annotation with the
// subset: the mark, and the fields that determine the deletion cost. podFields copies nothing from a Pod without a
// mark, because the controller reads such Pods from the API server.
func podFields(kept, pod *corev1.Pod) {
	text := pod.Annotations[apps.AnnotationMatchedWorkloadSpread]
	if _, ok := marked(pod); !ok {
		return
	}
	annotations := map[string]string{}
	maps.Copy(annotations, kept.Annotations)
	annotations[apps.AnnotationMatchedWorkloadSpread] = text
	if cost, ok := pod.Annotations[apps.AnnotationPodDeletionCost]; ok {
		annotations[apps.AnnotationPodDeletionCost] = cost
	}
	kept.Annotations = annotations
	for _, name := range []corev1.PodConditionType{corev1.PodReady, corev1.PodScheduled} {
		if c := podstate.Condition(pod, name); c != nil && podstate.Condition(kept, name) == nil {
			kept.Status.Conditions = append(slices.Clip(kept.Status.Conditions), *c)
		}
	}
	if len(kept.Status.ContainerStatuses) == 0 {
		for i := range pod.Status.ContainerStatuses {
			kept.Status.ContainerStatuses = append(kept.Status.ContainerStatuses, corev1.ContainerStatus{RestartCount: pod.Status.ContainerStatuses[i].RestartCount})
		}
	}
}
