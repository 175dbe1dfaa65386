package realnode_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

const samples = 10

// candidate is a workload that is updated in a certain way, such as in place, and the name of this way in the
// README's table.
type candidate struct {
	label string
	workload
}

// printTimes prints how long the update of a Pod takes if the new image is already on the Node.
func (f *fixture) printTimes(candidates []candidate, edits ...templateEdit) {
	f.t.Helper()
	f.cacheImages()
	rows := fmt.Sprintf("\n| one Pod, %d samples: median (min-max) | new version served | settled |\n|---|---|---|\n", samples)
	for _, c := range candidates {
		f.create(c, 1, edits...)
		var served, settled []time.Duration
		for i := range samples {
			// A kubelet that has just worked on a Pod looks at the Pod again only after it has listed the containers again,
			// which happens once a second.
			f.quiet(c, 3*time.Second)
			begin := time.Now()
			f.edit(c, setImage(0, f.image(sample(i))))
			f.untilServed(c, sample(i))
			served = append(served, time.Since(begin))
			f.settled(c)
			settled = append(settled, time.Since(begin))
		}
		rows += fmt.Sprintf("| %s | %s | %s |\n", c.label, summary(served), summary(settled))
	}
	fmt.Println(rows)
}

func sample(i int) string { return fmt.Sprintf("sample-%d", i) }

// cacheImages makes the Node pull the images of the samples.
func (f *fixture) cacheImages() {
	f.t.Helper()
	images := make([]string, samples)
	for i := range images {
		images[i] = f.image(sample(i))
	}
	f.pull("cache", images...)
}

// pull creates a Pod that makes the Node pull images, and deletes the Pod afterwards.
func (f *fixture) pull(name string, images ...string) {
	f.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name},
		Spec:       corev1.PodSpec{DNSPolicy: corev1.DNSDefault},
	}
	for i, image := range images {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: fmt.Sprintf("c-%d", i), Image: image, Args: []string{"pause"}})
	}
	if err := f.Create(f.t.Context(), pod); err != nil {
		f.t.Fatal(err)
	}
	controlplanetest.Eventually(f.t, within, func(ctx context.Context) error {
		if err := f.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodRunning {
			return f.troubles(ctx)
		}
		return nil
	})
	if err := f.Delete(f.t.Context(), pod); err != nil {
		f.t.Fatal(err)
	}
}

func summary(samples []time.Duration) string {
	slices.Sort(samples)
	median := (samples[(len(samples)-1)/2] + samples[len(samples)/2]) / 2
	return fmt.Sprintf("%.2f s (%.2f-%.2f)", median.Seconds(), samples[0].Seconds(), samples[len(samples)-1].Seconds())
}

// printLosses updates the image of five Pods one after the other while clients send requests to the addresses in
// EndpointSlices. printLosses prints and returns the counts of lost requests.
func (f *fixture) printLosses(candidates []candidate) (counts []*tally) {
	f.t.Helper()
	const pods = 5
	rows := fmt.Sprintf("\n| %d Pods, requests of %s | time | requests | lost |\n|---|---|---|---|\n", pods, requestTime)
	for _, c := range candidates {
		f.create(c, pods)
		stop := f.load(c, pods)
		begin := time.Now()
		f.change(c, setImage(0, f.image("v2")))
		took := time.Since(begin)
		count := stop()
		counts = append(counts, count)
		rows += fmt.Sprintf("| %s | %.1f s | %d | %d |\n", c.label, took.Seconds(), count.sent, count.losses())
		if count.sent < 500 {
			f.t.Errorf("%s: only %d requests were sent", c.label, count.sent)
		}
	}
	fmt.Println(rows)
	return counts
}

// untilServed waits until a Pod of the workload serves the given version.
func (f *fixture) untilServed(w workload, version string) {
	f.t.Helper()
	httpClient := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Second}
	controlplanetest.Eventually(f.t, within, func(ctx context.Context) error {
		var pods corev1.PodList
		if err := f.List(ctx, &pods, client.InNamespace(f.namespace), client.MatchingLabels{"app": w.name()}); err != nil {
			return err
		}
		err := errors.New("no Pod")
		for i := range pods.Items {
			if ip := pods.Items[i].Status.PodIP; ip != "" {
				if err = serves(ctx, httpClient, ip, version); err == nil {
					return nil
				}
			}
		}
		return err
	})
}

func serves(ctx context.Context, c *http.Client, ip, version string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+ip+":8080/", nil)
	if err != nil {
		return err
	}
	response, err := c.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	if err == nil && string(data) != version {
		err = fmt.Errorf("%s serves %q, want %s", ip, data, version)
	}
	return err
}
