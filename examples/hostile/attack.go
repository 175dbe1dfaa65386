package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/internal/hostile"
)

// tally counts the response codes of each attack.
type tally struct {
	mu     sync.Mutex
	counts map[string]map[string]int
}

func (t *tally) add(attack, answer string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts[attack] == nil {
		t.counts[attack] = map[string]int{}
	}
	t.counts[attack][answer]++
}

// attack runs all attacks at the same time until ctx ends. The requests of the same attack are sent one after the
// other. The returned function waits until all attacks have ended, and returns the response codes.
func (c *cluster) attack(ctx context.Context, o options, like *v1beta1.CloneSet, agent *stolen) (answers func() map[string]map[string]int, err error) {
	account, err := c.asEditor(ctx)
	if err != nil {
		return nil, err
	}
	v, err := newVillain(account)
	if err != nil {
		return nil, err
	}
	if err := v.pester(ctx, c, like); err != nil {
		return nil, err
	}
	pause, t := o.pause, &tally{counts: map[string]map[string]int{}}
	var group sync.WaitGroup
	repeat := func(name string, late, pause time.Duration, once func(context.Context) string) {
		group.Go(func() {
			sleep(ctx, late)
			for ctx.Err() == nil {
				if answer := once(ctx); ctx.Err() == nil {
					t.add(name, answer)
				}
				sleep(ctx, pause)
			}
		})
	}
	agent.begin(repeat, o)
	if o.agentAlone {
		return answersOf(&group, t), nil
	}
	repeat("Pods annotated", 0, time.Second, func(ctx context.Context) string { return v.annotate(ctx, c) })
	repeat("reviews that never come", 0, time.Second, c.hold)
	repeat("a careless operator writes to CRDs", 0, 10*time.Second, c.writeCRDs)
	objects := slices.Concat(hostile.Objects(), hostile.StatefulSets(), hostile.DaemonSets(), hostile.Pods(), hostile.Jobs(), hostile.ImageJobs(), hostile.Policies())
	for i, object := range objects {
		// The start of each attack is delayed a little more than the start of the previous attack. Otherwise the attacks
		// would keep the API server busy all the time.
		late := time.Duration(i) * pause / time.Duration(len(objects))
		name := fmt.Sprintf("villain-%d", i)
		path, body, err := encoded(object, name)
		if err != nil {
			return nil, err
		}
		repeat("dry run: "+object.Name, late, pause, func(ctx context.Context) string { return v.send(ctx, http.MethodPost, path+"?dryRun=All", body) })
		repeat("stored: "+object.Name, late, pause, func(ctx context.Context) string { return v.store(ctx, path, name, body) })
	}
	path, body, err := encoded(hostile.Edited(), "edited")
	if err != nil {
		return nil, err
	}
	if answer := v.send(ctx, http.MethodPost, path, body); answer != strconv.Itoa(http.StatusCreated) {
		return nil, fmt.Errorf("the DaemonSet to edit: %s", answer)
	}
	seconds := 0
	repeat("a DaemonSet edited", 0, 100*time.Millisecond, func(ctx context.Context) string {
		seconds = (seconds + 1) % 100
		return v.patch(ctx, path+"/edited", fmt.Sprintf(`{"spec":{"minReadySeconds":%d}}`, seconds))
	})
	for path, body := range posts() {
		repeat("posted to "+path, 0, pause, func(ctx context.Context) string { return c.post(ctx, path, body) })
	}
	return answersOf(&group, t), nil
}

// answersOf returns a function that waits until all attacks have ended, and returns the counts of the response codes.
func answersOf(group *sync.WaitGroup, t *tally) func() map[string]map[string]int {
	return func() map[string]map[string]int {
		group.Wait()
		t.mu.Lock()
		defer t.mu.Unlock()
		return maps.Clone(t.counts)
	}
}

// writeCRDs changes fields of CRDs without an effect on objects, for kinds whose objects the Pod webhook reads. Each
// write makes the API server close the watches of a kind.
func (c *cluster) writeCRDs(ctx context.Context) string {
	for _, name := range []string{"sidecarsets.apps.kruise.io", "podunavailablebudgets.policy.kruise.io"} {
		crd := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"}}
		crd.Name = name
		body := fmt.Appendf(nil, `{"spec":{"names":{"categories":["c%d"]}}}`, clock.RealClock{}.Now().Unix())
		if err := c.Patch(ctx, crd, client.RawPatch(types.MergePatchType, body)); err != nil {
			return err.Error()
		}
	}
	return "written"
}

// encoded returns an object with the given name as JSON, and the API path of its kind.
func encoded(object hostile.Object, name string) (path string, body []byte, err error) {
	object.Content["metadata"].(map[string]any)["name"] = name
	if body, err = json.Marshal(object.Content); err != nil {
		return "", nil, fmt.Errorf("encoding %s: %w", object.Name, err)
	}
	group := "/apis/"
	if object.Content["apiVersion"] == "v1" {
		group = "/api/"
	}
	return fmt.Sprint(group, object.Content["apiVersion"], "/namespaces/"+villains+"/"+strings.ToLower(fmt.Sprint(object.Content["kind"]))+"s"), body, nil
}

// villain is an attacker: either a user with rights in a single namespace, or an attacker with the token of a node
// agent.
type villain struct {
	host   string
	client *http.Client
}

func newVillain(config *rest.Config) (*villain, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("client of the villain: %w", err)
	}
	return &villain{host: config.Host, client: client}, nil
}

// send sends a request with a JSON body and returns the code of the response.
func (v *villain) send(ctx context.Context, method, path string, body []byte) string {
	return v.request(ctx, method, path, "application/json", body)
}

func (v *villain) request(ctx context.Context, method, path, contentType string, body []byte) string {
	request, err := http.NewRequestWithContext(ctx, method, v.host+path, bytes.NewReader(body))
	if err != nil {
		return err.Error()
	}
	request.Header.Set("Content-Type", contentType)
	return codeOf(v.client.Do(request))
}

// codeOf reads the whole response, and returns its status code.
func codeOf(answer *http.Response, err error) string {
	if err != nil {
		return "no answer"
	}
	_, err = io.Copy(io.Discard, answer.Body)
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		return "half an answer"
	}
	return strconv.Itoa(answer.StatusCode)
}

// store creates an object, reads the object in the old API version, and deletes the object.
func (v *villain) store(ctx context.Context, path, name string, body []byte) string {
	created := v.send(ctx, http.MethodPost, path, body)
	if created != strconv.Itoa(http.StatusCreated) {
		return created
	}
	// For Pods the path does not change, because Pods have only one API version.
	read := v.send(ctx, http.MethodGet, strings.Replace(path, "v1beta1", "v1alpha1", 1)+"/"+name, nil)
	return created + ", read " + read + ", deleted " + v.send(ctx, http.MethodDelete, path+"/"+name, nil) + ";"
}

// posts returns functions that make bodies of requests to the webhooks, by path. No API server would send such
// bodies.
func posts() map[string]func() io.Reader {
	const many = 300 << 20
	return map[string]func() io.Reader{
		"/convert":                        func() io.Reader { return io.MultiReader(strings.NewReader(`{"request":"`), zeros(many)) },
		"/mutate-apps-kruise-io-cloneset": func() io.Reader { return io.MultiReader(strings.NewReader(`{"request":"`), zeros(many)) },
		"/nobody":                         func() io.Reader { return zeros(many) },
	}
}

// zeros returns a reader of n zero characters.
func zeros(n int64) io.Reader { return io.LimitReader(zero{}, n) }

type zero struct{}

func (zero) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

// post sends a body to the port of the webhooks. Every client that can reach the port can do the same.
func (c *cluster) post(ctx context.Context, path string, body func() io.Reader) string {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("https://localhost:%d%s", c.Port, path), body())
	if err != nil {
		return err.Error()
	}
	request.Header.Set("Content-Type", "application/json")
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // An attacker verifies nothing.
	defer transport.CloseIdleConnections()
	return codeOf((&http.Client{Transport: transport, Timeout: time.Minute}).Do(request))
}
