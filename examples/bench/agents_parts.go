package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/podstate"
)

// patience is how long a part may last without progress.
const patience = 10 * time.Minute

// rest waits for a while without any work, so that the cost of idle agents can be measured.
func (b *agentBench) rest(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(b.o.idle):
		return nil
	}
}

// start starts the agents of all Nodes.
func (b *agentBench) start(ctx context.Context) (err error) {
	if b.o.agent == "" {
		b.agents, err = startTogether(ctx, b)
	} else {
		b.agents, err = startProcesses(ctx, b)
	}
	return err
}

// countPods returns the number of Pods for which holds returns true.
func (b *agentBench) countPods(holds func(*corev1.Pod) bool) (n int) {
	for _, object := range b.pods.GetStore().List() {
		if pod, ok := object.(*corev1.Pod); ok && holds(pod) {
			n++
		}
	}
	return n
}

func (b *agentBench) untilReady(ctx context.Context) error {
	return b.until(ctx, "Pods are ready", func() int { return b.countPods(podstate.IsReady) })
}

// until waits until the function count returns the number of Pods.
func (b *agentBench) until(ctx context.Context, what string, count func() int) error {
	last := 0
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		last = count()
		return last >= b.o.pods, nil
	})
	if err != nil {
		return fmt.Errorf("%d of %d %s: %w", last, b.o.pods, what, err)
	}
	return nil
}

const changedAnnotation = "bench.workloadkit.io/changed"

// annotate changes an annotation of each Pod, and waits until a watch has shown all changes. The agents ignore the
// annotation.
func (b *agentBench) annotate(ctx context.Context) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"true"}}}`, changedAnnotation)
	err := inParallel(ctx, b.o.pods, func(i int) error {
		_, err := b.clients.CoreV1().Pods(agentsNamespace).Patch(ctx, podName(i), types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("changing Pods: %w", err)
	}
	return b.until(ctx, "changes are seen", func() int {
		return b.countPods(func(pod *corev1.Pod) bool { return pod.Annotations[changedAnnotation] != "" })
	})
}

// restart creates a ContainerRecreateRequest for each Pod. The requests are created in batches of o.atOnce requests.
// Each batch must be completed before the next batch.
func (b *agentBench) restart(ctx context.Context) error {
	for first := 0; first < b.o.pods; first += b.o.atOnce {
		n := min(b.o.atOnce, b.o.pods-first)
		err := inParallel(ctx, n, func(i int) error {
			return b.Create(ctx, &v1beta1.ContainerRecreateRequest{
				ObjectMeta: metav1.ObjectMeta{Namespace: agentsNamespace, Name: podName(first + i), Labels: batchOf(first)},
				Spec: v1beta1.ContainerRecreateRequestSpec{
					PodName: podName(first + i), Containers: []v1beta1.ContainerRecreateRequestContainer{{Name: "app"}},
				},
			})
		})
		if err != nil {
			return fmt.Errorf("creating requests: %w", err)
		}
		if err := b.untilCompleted(ctx, batchOf(first), n); err != nil {
			return err
		}
		fmt.Fprintf(b.log, "   %d of %d requests\n", first+n, b.o.pods)
	}
	return nil
}

// batchOf returns a label for ContainerRecreateRequests that are created together. Without the label, the bench
// command would have to list all requests, which would cost the API server more than the agents.
func batchOf(first int) client.MatchingLabels {
	return client.MatchingLabels{"bench.workloadkit.io/batch": strconv.Itoa(first)}
}

// untilCompleted waits until the wanted number of requests in a batch have succeeded.
func (b *agentBench) untilCompleted(ctx context.Context, batch client.MatchingLabels, want int) error {
	var last string
	err := wait.PollUntilContextTimeout(ctx, time.Second, patience, true, func(ctx context.Context) (bool, error) {
		var requests v1beta1.ContainerRecreateRequestList
		if err := b.List(ctx, &requests, client.InNamespace(agentsNamespace), batch); err != nil {
			return false, err
		}
		ended := 0
		for i := range requests.Items {
			status := &requests.Items[i].Status
			if status.Phase != v1beta1.ContainerRecreateRequestCompleted {
				continue
			}
			if len(status.ContainerRecreateStates) != 1 || status.ContainerRecreateStates[0].Phase != v1beta1.ContainerRecreateRequestSucceeded {
				text, err := json.Marshal(status)
				return false, errors.Join(fmt.Errorf("request %s has ended badly: %s", requests.Items[i].Name, text), err)
			}
			ended++
		}
		last = fmt.Sprintf("%d of %d requests have ended", ended, want)
		return ended >= want, nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", last, err)
	}
	return nil
}

// checkRestarts returns an error unless container app of each Pod has restarted exactly once, because the measurement
// would then be meaningless.
func (b *agentBench) checkRestarts(ctx context.Context) error {
	var pods corev1.PodList
	if err := b.List(ctx, &pods, client.InNamespace(agentsNamespace)); err != nil {
		return fmt.Errorf("listing Pods: %w", err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		for name, want := range map[string]int32{"app": 1, "log": 0} {
			if status := podstate.ContainerStatus(pod, name); status == nil || status.RestartCount != want {
				return fmt.Errorf("container %s of Pod %s: status %+v, want %d restarts", name, pod.Name, status, want)
			}
		}
	}
	return nil
}
