package admission_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/admission/admissiontest"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	cloneset "github.com/workloadkit/workloadkit/examples/apis/apps/conversion"
	"github.com/workloadkit/workloadkit/examples/internal/hostile"
)

// withTemplate returns a small object with a changed template.
func withTemplate(t testing.TB, change func(template, container tree)) tree {
	t.Helper()
	object := small(t, "v1beta1", "  updateStrategy: {type: OnDelete}")
	template := object["spec"].(tree)["template"].(tree)
	change(template, template["spec"].(tree)["containers"].([]any)[0].(tree))
	return object
}

// repeated returns n values made by a function.
func repeated(n int, value func(i int) any) []any {
	out := make([]any, n)
	for i := range out {
		out[i] = value(i)
	}
	return out
}

// empty is a reader that finds no objects, and counts requests.
type empty struct {
	client.Reader

	asked int
}

func (e *empty) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	e.asked++
	return apierrors.NewNotFound(schema.GroupResource{Resource: "any"}, key.Name)
}

func (e *empty) List(context.Context, client.ObjectList, ...client.ListOption) error {
	e.asked++
	return nil
}

// TestHostileIsAnsweredShortly: the response to each object that is made to overload admission is small, and
// admission sends few requests.
func TestHostileIsAnsweredShortly(t *testing.T) {
	for _, object := range slices.Concat(hostile.Objects(), hostile.StatefulSets(), hostile.DaemonSets(), hostile.Jobs(), hostile.ImageJobs(), hostile.Policies()) {
		content := named(t, object)
		for _, verb := range []string{"mutate", "validate"} {
			path := admissiontest.Path(verb, content)
			if handlersOf(admission.Options{})[path] == nil && verb == "mutate" {
				continue // the kind has no mutating webhook
			}
			t.Run(path+" "+object.Name, func(t *testing.T) {
				reader := &empty{}
				response := handlersOf(admission.Options{Reader: reader, Gates: imageGates()}).Review(t, path, admissiontest.Request(t, admissionv1.Create, content, nil))
				if size := len(admissiontest.Encode(t, response)); size > 64<<10 && response.Patch == nil {
					t.Errorf("an answer of %d bytes", size)
				}
				if reader.asked > 1 {
					t.Errorf("%d requests", reader.asked)
				}
				if verb == "validate" && response.Allowed != object.Passes {
					t.Errorf("admitted: %v, %.300v", response.Allowed, response.Result)
				}
			})
		}
	}
}

func imageGates() map[apps.Gate]bool {
	return apps.ResolveGates(map[apps.Gate]bool{apps.GateImagePullJob: true})
}

// named returns the content of an object, with a name.
func named(t testing.TB, object hostile.Object) tree {
	t.Helper()
	return admissiontest.Edit(t, object.Content, "/metadata/name", "web")
}

// BenchmarkHostile measures the review of objects that are made to overload admission. A review should take at most a
// second and 64 MiB.
func BenchmarkHostile(b *testing.B) {
	for _, object := range slices.Concat(hostile.Objects(), hostile.StatefulSets(), hostile.DaemonSets(), hostile.Jobs(), hostile.ImageJobs(), hostile.Policies()) {
		content := named(b, object)
		req := admissiontest.Request(b, admissionv1.Create, content, nil)
		body := admissiontest.Encode(b, tree{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": req})
		for _, verb := range []string{"mutate", "validate"} {
			handlers, path := handlersOf(admission.Options{Reader: &empty{}, Gates: imageGates()}), admissiontest.Path(verb, content)
			if handlers[path] == nil {
				continue
			}
			b.Run(verb+" "+object.Name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					handlers.Ask(b, path, body)
				}
			})
		}
	}
}

func TestLimits(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	noted := func(more string) tree {
		return admissiontest.Edit(t, withTemplate(t, func(tree, tree) {}), "/metadata/annotations", tree{"a": long[:200_000] + more})
	}
	huge := admissiontest.Edit(t, withTemplate(t, func(tree, tree) {}), "/spec/template/future", long)
	deep := withTemplate(t, func(p, _ tree) { p["future"] = hostile.Nested(200) })
	terms := func(n int) tree {
		return admissiontest.Edit(t, withTemplate(t, func(tree, tree) {}), "/spec/updateStrategy", tree{"type": "RollingUpdate", "rollingUpdate": tree{
			"podUpdatePolicy": "ReCreate", "partition": 0, "maxUnavailable": 1, "maxSurge": 0,
			"scatterStrategy": repeated(n, func(i int) any { return tree{"key": "k" + strconv.Itoa(i), "value": "x"} }),
		}})
	}
	for _, tc := range []struct {
		name     string
		old, new tree
		code     int32
		text     string
	}{
		{"large", nil, huge, http.StatusRequestEntityTooLarge, "at most 1048576"},
		{"as large as it is stored", huge, huge, 0, ""},
		{"larger than it is stored", huge, admissiontest.Edit(t, huge, "/spec/template/future", long+"x"), http.StatusRequestEntityTooLarge, "at most 1048576"},
		{"made smaller, but still large", admissiontest.Edit(t, huge, "/spec/template/future", long+"x"), huge, 0, ""},
		{"deep", nil, deep, http.StatusUnprocessableEntity, "nested 203 levels deep, at most 100"},
		{"as deep as it is stored", deep, deep, 0, ""},
		{"many terms", nil, terms(6000), http.StatusUnprocessableEntity, "has 6000 elements in its lists, together with selector, at most 5000"},
		{"as many as are stored", terms(6000), terms(6000), 0, ""},
		{"an annotation with room beside it", nil, noted(""), 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			operation := admissionv1.Create
			if tc.old != nil {
				operation = admissionv1.Update
			}
			for _, path := range []string{mutatePath, validatePath} {
				got := handlersOf(admission.Options{}).Review(t, path, admissiontest.Request(t, operation, tc.new, tc.old))
				code, text := int32(0), ""
				if got.Result != nil {
					code, text = got.Result.Code, got.Result.Message
				}
				if got.Allowed {
					code = 0
				}
				if path == validatePath && code != tc.code || !strings.Contains(text, tc.text) {
					t.Errorf("%s: %d %.300s, want %d with %q", path, code, text, tc.code, tc.text)
				}
			}
		})
	}
	body := []byte(`{"request":"` + strings.Repeat("x", 9<<20) + `"}`)
	handlers := handlersOf(admission.Options{})
	for path := range handlers {
		if code, answer := handlers.Ask(t, path, body); path != admission.HealthzPath && code != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: a review of %d bytes is answered with %d %.200s", path, len(body), code, answer)
		}
	}
}

// fromAddress sends a request from an address, with a body of declared length.
func fromAddress(address string, body io.Reader, length int64) func(*http.Request) {
	closer, ok := body.(io.ReadCloser)
	if !ok {
		closer = io.NopCloser(body)
	}
	return func(r *http.Request) { r.RemoteAddr, r.Body, r.ContentLength = address, closer, length }
}

// slow is a reader that returns only after the test has closed a channel.
type slow struct {
	client.Reader

	answer chan struct{}
}

func (s *slow) Get(ctx context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	select {
	case <-s.answer:
	case <-ctx.Done():
		return ctx.Err()
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, key.Name)
}

// TestReviewsWaitForEachOther: at most one large review per address and two large reviews in all are processed at a
// time. Small reviews are processed concurrently. Every wait ends, and a busy client does not keep other clients
// waiting.
func TestReviewsWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader, cutOff := &slow{answer: make(chan struct{})}, map[int]int{}
		var mu sync.Mutex
		count := func(into map[int]int, code int) {
			mu.Lock()
			defer mu.Unlock()
			into[code]++
		}
		handlers := handlersOf(admission.Options{Reader: reader, CutOff: func(status int) { count(cutOff, status) }})
		codes := map[int]int{}
		send := func(n int, from string, padding int) {
			object := small(t, "v1beta1", "  scaleStrategy: {podsToDelete: [web-1]}", "  updateStrategy: {type: OnDelete}")
			req := admissiontest.Request(t, admissionv1.Create, object, nil)
			body := admissiontest.Encode(t, tree{
				"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": req, "padding": strings.Repeat("x", padding),
			})
			for i := range n {
				go func() {
					code, _ := handlers.Ask(t, validatePath, nil, fromAddress(fmt.Sprintf("%s:%d", from, 40000+i), bytes.NewReader(body), int64(len(body))))
					count(codes, code)
				}()
			}
		}
		answered := func(what string, want map[int]int) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if diff := cmp.Diff(want, codes); diff != "" {
				t.Errorf("%s: answers by code (-want +got):\n%s", what, diff)
			}
			clear(codes)
		}
		send(8, "192.0.2.7", 6<<20)
		answered("before anything is answered", map[int]int{})
		time.Sleep(time.Second) // in the test, time passes only while all goroutines wait
		send(1, "192.0.2.1", 6<<20)
		send(1, "2001:db8::1", 6<<20)
		answered("all have to wait", map[int]int{})
		time.Sleep(8 * time.Second)
		answered("one address has had its share", map[int]int{http.StatusServiceUnavailable: 7})
		time.Sleep(time.Second)
		answered("two addresses have had everything", map[int]int{http.StatusServiceUnavailable: 1})
		close(reader.answer)
		answered("in the end", map[int]int{http.StatusOK: 2})
		send(200, "192.0.2.1", 0)
		answered("many small ones", map[int]int{http.StatusOK: 200})
		if diff := cmp.Diff(map[int]int{http.StatusServiceUnavailable: 8}, cutOff); diff != "" {
			t.Errorf("observed (-want +got):\n%s", diff)
		}
	})
}

// TestWhoTakesMostLosesIts: the memory for waiting reviews is limited. Above the limit, a review of the address that
// uses most of the memory is refused.
func TestWhoTakesMostLosesIts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := &slow{answer: make(chan struct{})}
		handlers := handlersOf(admission.Options{Reader: reader, Gates: imageGates()})
		var mu sync.Mutex
		codes := map[string]map[int]int{}
		send := func(n int, from, more string, padding int) {
			if codes[from] == nil {
				codes[from] = map[int]int{}
			}
			req := admissiontest.Request(t, admissionv1.Create, small(t, "v1beta1", "  updateStrategy: {type: OnDelete}", more), nil)
			body := admissiontest.Encode(t, tree{
				"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": req, "padding": strings.Repeat("x", padding),
			})
			for range n {
				go func() {
					code, _ := handlers.Ask(t, validatePath, nil, fromAddress(from+":1", bytes.NewReader(body), int64(len(body))))
					mu.Lock()
					defer mu.Unlock()
					codes[from][code]++
				}()
			}
			synctest.Wait()
		}
		const blocks = "  scaleStrategy: {podsToDelete: [web-1]}"
		// Small reviews that are still being received are never refused, whichever address sends them.
		finish := []func(){}
		for i, from := range []string{"192.0.2.7", "192.0.2.9", "192.0.2.10", "192.0.2.11", "192.0.2.12"} {
			codes[from] = map[int]int{}
			body := admissiontest.Encode(t, tree{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": admissiontest.Request(t, admissionv1.Create, small(t, "v1beta1"), nil)})
			reader, writer := io.Pipe()
			go func() {
				code, _ := handlers.Ask(t, validatePath, nil, fromAddress(fmt.Sprintf("%s:%d", from, i), reader, int64(len(body))))
				mu.Lock()
				defer mu.Unlock()
				codes[from][code]++
			}()
			finish = append(finish, func() {
				_, _ = writer.Write(body) // if the review was refused, the write ends when the pipe is closed
				_ = writer.Close()
			})
			t.Cleanup(func() { _ = reader.Close() })
		}
		synctest.Wait()
		send(30, "192.0.2.7", blocks, 6<<20)
		send(1, "192.0.2.8", blocks, 6<<20)
		send(100, "192.0.2.1", "", 0)
		send(100, "192.0.2.7", "", 0)
		for _, send := range finish {
			go send()
		}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		// One review of 6 MiB is being processed, and the memory allows ten reviews to wait. One of the ten is a
		// review of the second address.
		want := map[string]map[int]int{
			"192.0.2.7": {http.StatusServiceUnavailable: 20, http.StatusOK: 101}, "192.0.2.8": {}, "192.0.2.1": {http.StatusOK: 100},
			"192.0.2.9": {http.StatusOK: 1}, "192.0.2.10": {http.StatusOK: 1}, "192.0.2.11": {http.StatusOK: 1}, "192.0.2.12": {http.StatusOK: 1},
		}
		if diff := cmp.Diff(want, codes); diff != "" {
			t.Errorf("answers by address (-want +got):\n%s", diff)
		}
		close(reader.answer)
	})
}

// TestCutOff: on every path for reviews, the metric counts reviews that were refused without being read.
func TestCutOff(t *testing.T) {
	for path := range handlersOf(admission.Options{}) {
		if path == admission.HealthzPath {
			continue
		}
		for _, tc := range []struct {
			name   string
			body   io.Reader
			length int64
			want   int
		}{
			{"no length", strings.NewReader("{}"), -1, http.StatusLengthRequired},
			{"too long", strings.NewReader("{}"), 9 << 20, http.StatusRequestEntityTooLarge},
			{"late", iotest.ErrReader(os.ErrDeadlineExceeded), 100, http.StatusRequestTimeout},
			{"in order", strings.NewReader("{}"), 2, 0},
		} {
			t.Run(path+" "+tc.name, func(t *testing.T) {
				got := 0
				handlers := handlersOf(admission.Options{CutOff: func(status int) { got = status }})
				code, _ := handlers.Ask(t, path, nil, fromAddress("192.0.2.1:40000", tc.body, tc.length))
				if got != tc.want || (tc.want > 0 && tc.want != http.StatusRequestTimeout && code != tc.want) {
					t.Errorf("answered with %d, observed %d, want %d", code, got, tc.want)
				}
			})
		}
	}
}

// TestProblemsAreCapped: a response contains the first errors, and the number of further errors.
func TestProblemsAreCapped(t *testing.T) {
	object := small(t, "v1beta1")
	object["spec"].(tree)["updateStrategy"] = tree{"type": "OnDelete", "rollingUpdate": tree{
		"scatterStrategy": repeated(120, func(i int) any { return tree{"value": strconv.Itoa(i)} }),
	}}
	response := handlersOf(admission.Options{}).Review(t, validatePath, admissiontest.Request(t, admissionv1.Create, object, nil))
	causes := response.Result.Details.Causes
	if len(causes) != 51 || !strings.Contains(causes[50].Message, "and 70 more problems") {
		t.Errorf("%d causes, the last of which is %v", len(causes), causes[len(causes)-1])
	}
}

// TestAdmittedConverts creates random objects with invalid values, keys in another case, and long, deeply nested or
// unusual values. Every admitted object can be converted to the other version and back without loss, within the
// limits of the API server. HOSTILE_OBJECTS sets the number of objects, and HOSTILE_FIRST_SEED the first seed.
func TestAdmittedConverts(t *testing.T) {
	objects, first := 300, 0
	for name, number := range map[string]*int{"HOSTILE_OBJECTS": &objects, "HOSTILE_FIRST_SEED": &first} {
		text := os.Getenv(name)
		if text == "" {
			continue
		}
		var err error
		if *number, err = strconv.Atoi(text); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	for _, room := range []string{"cloneset", "statefulset"} {
		t.Run(room, func(t *testing.T) { admittedConverts(t, "../kinds/"+room+"/testdata/everything.yaml", objects, first) })
	}
}

func admittedConverts(t *testing.T, file string, objects, first int) {
	t.Helper()
	base := map[string]tree{"v1beta1": admissiontest.Load(t, file, "v1beta1")}
	alpha, err := cloneset.JSON(admissiontest.Encode(t, base["v1beta1"]), "apps.kruise.io/v1alpha1")
	if err != nil {
		t.Fatal(err)
	}
	base["v1alpha1"] = parsed(t, alpha)
	handlers, admitted := handlersOf(admission.Options{}), 0
	for i := range objects {
		seed := uint64(first + i)
		r := rand.New(rand.NewPCG(seed, 11))
		version := []string{"v1alpha1", "v1beta1"}[r.IntN(2)]
		object := decoded(t, base[version])
		var what []string
		for range 1 + r.IntN(3) {
			what = append(what, vandalise(r, object))
		}
		if isAdmitted(t, handlers, &object, seed, what) {
			admitted++
			checkConverts(t, object)
		}
		if t.Failed() {
			t.Fatalf("seed %d: %s", seed, strings.Join(what, "; "))
		}
	}
	t.Logf("%d of %d objects were admitted", admitted, objects)
	if admitted < objects/20 {
		t.Errorf("only %d of %d objects were admitted", admitted, objects)
	}
}

func parsed(t testing.TB, raw []byte) (out tree) {
	t.Helper()
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// isAdmitted sends the object to the mutating and the validating webhook, and reports whether both admit the object.
func isAdmitted(t *testing.T, handlers admissiontest.Server, object *tree, seed uint64, what []string) bool {
	t.Helper()
	send := func(path string) *admissionv1.AdmissionResponse {
		req := admissiontest.Request(t, admissionv1.Create, *object, nil)
		_, answer := handlers.Ask(t, path, admissiontest.Encode(t, tree{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": req}))
		var got admissionv1.AdmissionReview
		if err := json.Unmarshal(answer, &got); err != nil || got.Response == nil {
			t.Fatalf("seed %d: %s: %.300s: %v", seed, strings.Join(what, "; "), answer, err)
		}
		if got.Response.Result != nil && got.Response.Result.Code == http.StatusInternalServerError {
			t.Errorf("%s: %s", path, got.Response.Result.Message)
		}
		return got.Response
	}
	mutate := admissiontest.Path("mutate", *object)
	response := send(mutate)
	if !response.Allowed {
		return false
	}
	*object, _ = admissiontest.Patch(t, *object, response)
	if again := send(mutate); !again.Allowed || again.Patch != nil {
		t.Errorf("defaulted again: %s", again.Patch)
	}
	return send(admissiontest.Path("validate", *object)).Allowed
}

// checkConverts converts an object to the other version and back, and compares.
func checkConverts(t *testing.T, object tree) {
	t.Helper()
	self, other := object["apiVersion"].(string), "apps.kruise.io/v1alpha1"
	if self == other {
		other = "apps.kruise.io/v1beta1"
	}
	there, err := cloneset.JSON(admissiontest.Encode(t, object), other)
	if err != nil {
		t.Errorf("to %s: %v", other, err)
		return
	}
	var meta metav1.PartialObjectMetadata
	if err := json.Unmarshal(there, &meta); err != nil {
		t.Error(err)
	}
	errs := metav1validation.ValidateLabels(meta.Labels, field.NewPath("labels"))
	for _, err := range append(errs, apivalidation.ValidateAnnotations(meta.Annotations, field.NewPath("annotations"))...) {
		t.Errorf("in %s: %v", other, err)
	}
	if len(there) > 3<<20 {
		t.Errorf("in %s: %d bytes", other, len(there))
	}
	back, err := cloneset.JSON(there, self)
	if err != nil {
		t.Errorf("back to %s: %v", self, err)
		return
	}
	want, got := leaves("", object, map[string]any{}), leaves("", parsed(t, back), map[string]any{})
	for path, value := range want {
		if isNote(path) || value == nil || cmp.Equal(value, tree{}) || cmp.Equal(value, []any{}) || isDefault(path, value) {
			continue
		}
		if diff := cmp.Diff(value, got[path]); diff != "" {
			t.Errorf("%s through %s (-want +got):\n%s", path, other, diff)
		}
	}
}

// isDefault reports whether a value of an update strategy means the same as no value.
func isDefault(path string, value any) bool {
	switch path[strings.LastIndexByte(path, '/')+1:] {
	case "gracePeriodSeconds":
		return value == 0.0
	case "paused", "disablePVCReuse", "enablePVCReuse", "excludePreparingDelete":
		return value == false
	}
	return false
}

func isNote(path string) bool {
	return strings.HasSuffix(path, apps.AnnotationV1alpha1Only) || strings.HasSuffix(path, apps.AnnotationV1beta1Only)
}
