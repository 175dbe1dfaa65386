package faultapi

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Call is a request to the server.
type Call struct {
	// Verb is get, list, watch, create, update, patch or delete.
	Verb        string
	Resource    schema.GroupResource
	Subresource string
	Namespace   string
	Name        string
	// UID is the precondition of a deletion, or empty.
	UID types.UID
	// Body is the JSON of the created or updated object, or of the patch.
	Body []byte
	// DryRun is true for a call that is validated and answered, but not stored.
	DryRun bool
	// Task is the name given to the call's context by WithTask.
	Task string
}

// String renders the call on a single line, as in "patch pods/status default/web-1 {...}".
func (c Call) String() string {
	var b strings.Builder
	b.WriteString(c.Verb + " " + c.Resource.String())
	if c.Subresource != "" {
		b.WriteString("/" + c.Subresource)
	}
	b.WriteString(" " + c.Namespace + "/" + c.Name)
	if c.UID != "" {
		b.WriteString(" uid=" + string(c.UID))
	}
	if c.DryRun {
		b.WriteString(" (dry run)")
	}
	if len(c.Body) > 0 {
		b.WriteByte(' ')
		b.Write(c.Body)
	}
	return b.String()
}

// IsRead reports whether the call only reads.
func (c Call) IsRead() bool {
	return c.DryRun || c.Verb == "get" || c.Verb == "list" || c.Verb == "watch"
}

type taskKey struct{}

// WithTask names the task that makes calls with the context, for Call.Task.
func WithTask(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, taskKey{}, name)
}

// Fate is the outcome that a Gate chooses for a call. With the zero value, the call is carried out.
type Fate struct {
	// Before, if set, is returned as the error, and the call is not carried out.
	Before error
	// After, if set, is returned as the error in place of the server's response, although the call was carried out.
	After error
}

// Gate decides whether each call succeeds or fails, and may block the call. Implementations must be safe for concurrent
// use.
type Gate interface {
	Pass(ctx context.Context, call Call) Fate
}

// Client is a controller-runtime client of a Server. A Client is safe for concurrent use. Make a Client with
// Server.Client.
type Client struct {
	server *Server
	gate   Gate
	reads  client.Reader

	mu      sync.Mutex
	watches []*Watch
}

// Client returns a client of the server. Each call waits for the gate; if the gate is nil, all calls are carried out.
// Reads use the given reader, for example a Cache, or the server if the reader is nil.
func (s *Server) Client(gate Gate, reads client.Reader) *Client {
	return &Client{server: s, gate: gate, reads: reads}
}

// call waits for the gate and then carries out the call with the server locked. Callers use the response only if the
// error is nil, because a lost response must not reach the code under test.
func (c *Client) call(ctx context.Context, call Call, k *kind, do func(s *Server) error) error {
	call.Resource = k.resource
	call.Task, _ = ctx.Value(taskKey{}).(string)
	var fate Fate
	if c.gate != nil {
		fate = c.gate.Pass(ctx, call)
	}
	if fate.Before != nil {
		return fate.Before
	}
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	err := do(c.server)
	if fate.After != nil {
		return fate.After
	}
	return err
}

// Get reads an object.
func (c *Client) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if c.reads != nil {
		return c.reads.Get(ctx, key, obj, opts...)
	}
	k, err := c.server.kindOf(obj)
	if err != nil {
		return err
	}
	var stored client.Object
	err = c.call(ctx, Call{Verb: "get", Namespace: key.Namespace, Name: key.Name}, k, func(s *Server) (err error) {
		stored, err = s.get(k, key)
		return err
	})
	if err != nil {
		return err
	}
	return answer(k.gvk, stored, obj)
}

// List reads objects, sorted by name. A limit shortens the list, and there is no continuation.
func (c *Client) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if c.reads != nil {
		return c.reads.List(ctx, list, opts...)
	}
	k, err := c.server.kindOf(list)
	if err != nil {
		return err
	}
	o := client.ListOptions{}
	matches, err := matcher(o.ApplyOptions(opts))
	if err != nil {
		return err
	}
	var stored []client.Object
	var version string
	err = c.call(ctx, Call{Verb: "list", Namespace: o.Namespace, Name: nameOf(&o)}, k, func(s *Server) error {
		stored, version = s.list(k, matches), strconv.FormatInt(s.version, 10)
		return nil
	})
	if err != nil {
		return err
	}
	return answerList(k.gvk, limited(stored, o.Limit), version, list)
}

// matcher returns a function that reports whether an object matches the options of a list or a watch. Field selectors
// other than by name and namespace are not supported.
func matcher(o *client.ListOptions) (func(client.Object) bool, error) {
	if o.FieldSelector != nil {
		for _, r := range o.FieldSelector.Requirements() {
			if r.Field != "metadata.name" && r.Field != "metadata.namespace" {
				return nil, unsupported("the field selector " + r.Field)
			}
		}
	}
	return func(obj client.Object) bool {
		return (o.Namespace == "" || o.Namespace == obj.GetNamespace()) && (o.LabelSelector == nil || o.LabelSelector.Matches(labelsOf(obj))) &&
			(o.FieldSelector == nil || o.FieldSelector.Matches(fields.Set{"metadata.name": obj.GetName(), "metadata.namespace": obj.GetNamespace()}))
	}, nil
}

func everything(client.Object) bool { return true }

// nameOf returns the name in the options, for Call.Name.
func nameOf(o *client.ListOptions) string {
	if o.FieldSelector == nil {
		return ""
	}
	name, _ := o.FieldSelector.RequiresExactMatch("metadata.name")
	return name
}

func limited(stored []client.Object, limit int64) []client.Object {
	if limit <= 0 {
		return stored
	}
	return stored[:min(int64(len(stored)), limit)]
}

// Create creates an object.
func (c *Client) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	o := client.CreateOptions{}
	if o.ApplyOptions(opts); len(o.DryRun) > 0 {
		return unsupported("dry runs")
	}
	k, err := c.server.kindOf(obj)
	if err != nil {
		return err
	}
	body, err := json.Marshal(obj)
	if err != nil {
		return err
	}
	var stored client.Object
	err = c.call(ctx, Call{Verb: "create", Namespace: obj.GetNamespace(), Name: obj.GetName(), Body: body}, k, func(s *Server) error {
		fresh, err := k.decoded(obj, body)
		if err != nil {
			return err
		}
		stored, err = s.create(k, fresh)
		return err
	})
	if err != nil {
		return err
	}
	return answer(k.gvk, stored, obj)
}

// decoded returns the object as a request over the network would return the object: with times in whole seconds. The
// kind in the object's JSON is ignored.
func (k *kind) decoded(like client.Object, body []byte) (client.Object, error) {
	obj := newLike(k.like)
	if err := json.Unmarshal(body, obj); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	// Real clients send ControllerRevisions as protobuf, in which the data is a byte string, so the bytes of the data
	// do not change.
	if rev, ok := obj.(*appsv1.ControllerRevision); ok {
		rev.Data.Raw = slices.Clone(like.(*appsv1.ControllerRevision).Data.Raw)
	}
	return obj, nil
}

// Update replaces an object. The UID in the object is a precondition.
func (c *Client) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	o := client.UpdateOptions{}
	if o.ApplyOptions(opts); len(o.DryRun) > 0 {
		return unsupported("dry runs")
	}
	return c.update(ctx, "", obj)
}

func (c *Client) update(ctx context.Context, sub string, obj client.Object) error {
	k, err := c.server.kindOf(obj)
	if err != nil {
		return err
	}
	body, err := json.Marshal(obj)
	if err != nil {
		return err
	}
	key := client.ObjectKeyFromObject(obj)
	var stored client.Object
	err = c.call(ctx, Call{Verb: "update", Subresource: sub, Namespace: key.Namespace, Name: key.Name, Body: body}, k, func(s *Server) (err error) {
		stored, err = s.update(k, key, sub, func(current client.Object) (client.Object, error) {
			fresh, err := k.decoded(obj, body)
			if err != nil {
				return nil, err
			}
			if uid := fresh.GetUID(); uid != "" && uid != current.GetUID() {
				return nil, apierrors.NewConflict(k.resource, key.Name, fmt.Errorf("Precondition failed: UID in precondition: %s, UID in object meta: %s", uid, current.GetUID()))
			}
			return fresh, nil
		})
		return err
	})
	if err != nil {
		return err
	}
	return answer(k.gvk, stored, obj)
}

// Patch patches an object. A dry run is validated as usual, but not stored.
func (c *Client) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	o := client.PatchOptions{}
	o.ApplyOptions(opts)
	return c.patch(ctx, "", obj, patch, len(o.DryRun) > 0)
}

func (c *Client) patch(ctx context.Context, sub string, obj client.Object, patch client.Patch, dryRun bool) error {
	k, err := c.server.kindOf(obj)
	if err != nil {
		return err
	}
	body, err := patch.Data(obj)
	if err != nil {
		return err
	}
	key := client.ObjectKeyFromObject(obj)
	var stored client.Object
	call := Call{Verb: "patch", Subresource: sub, Namespace: key.Namespace, Name: key.Name, Body: body, DryRun: dryRun}
	err = c.call(ctx, call, k, func(s *Server) (err error) {
		change := func(current client.Object) (client.Object, error) { return k.patched(current, patch.Type(), body) }
		if dryRun {
			stored, _, err = s.updated(k, key, sub, change)
			return err
		}
		stored, err = s.update(k, key, sub, change)
		return err
	})
	if err != nil {
		return err
	}
	return answer(k.gvk, stored, obj)
}

// Delete deletes an object.
func (c *Client) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	k, err := c.server.kindOf(obj)
	if err != nil {
		return err
	}
	o := client.DeleteOptions{}
	o.ApplyOptions(opts)
	options := o.AsDeleteOptions()
	if len(options.DryRun) > 0 {
		return unsupported("dry runs")
	}
	if p := options.PropagationPolicy; p != nil && *p != metav1.DeletePropagationBackground {
		return unsupported("deletion with propagation " + string(*p))
	}
	call := Call{Verb: "delete", Namespace: obj.GetNamespace(), Name: obj.GetName()}
	if p := options.Preconditions; p != nil && p.UID != nil {
		call.UID = *p.UID
	}
	key := client.ObjectKeyFromObject(obj)
	return c.call(ctx, call, k, func(s *Server) error { return s.delete(k, key, options) })
}

func unsupported(what string) error { return fmt.Errorf("package faultapi does not support %s", what) }

// Apply is not supported.
func (c *Client) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return unsupported("server-side apply")
}

// DeleteAllOf is not supported.
func (c *Client) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	return unsupported("deletion of collections")
}

// Status returns the writer of the status subresource.
func (c *Client) Status() client.SubResourceWriter { return c.SubResource(statusSubresource) }

// SubResource returns the client of a subresource: status for all resources, resize and
// ephemeralcontainers for Pods.
func (c *Client) SubResource(name string) client.SubResourceClient { return &subClient{c, name} }

// Scheme returns the server's scheme.
func (c *Client) Scheme() *runtime.Scheme { return c.server.scheme }

// RESTMapper maps the server's resources.
func (c *Client) RESTMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, k := range c.server.order {
		var scope meta.RESTScope = meta.RESTScopeRoot
		if k.namespaced {
			scope = meta.RESTScopeNamespace
		}
		resource := k.gvk.GroupVersion().WithResource(k.resource.Resource)
		mapper.AddSpecific(k.gvk, resource, resource, scope)
	}
	return mapper
}

// GroupVersionKindFor returns an object's kind.
func (c *Client) GroupVersionKindFor(obj runtime.Object) (schema.GroupVersionKind, error) {
	return apiutil.GVKForObject(obj, c.server.scheme)
}

// IsObjectNamespaced reports whether objects of the kind are in a namespace.
func (c *Client) IsObjectNamespaced(obj runtime.Object) (bool, error) {
	k, err := c.server.kindOf(obj)
	if err != nil {
		return false, err
	}
	return k.namespaced, nil
}

// subClient writes a subresource.
type subClient struct {
	client *Client
	name   string
}

func (s *subClient) Get(context.Context, client.Object, client.Object, ...client.SubResourceGetOption) error {
	return unsupported("reading of subresources")
}

func (s *subClient) Create(context.Context, client.Object, client.Object, ...client.SubResourceCreateOption) error {
	return unsupported("creation of subresources")
}

func (s *subClient) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	o := client.SubResourceUpdateOptions{}
	if o.ApplyOptions(opts); len(o.DryRun) > 0 {
		return unsupported("dry runs")
	}
	return s.client.update(ctx, s.name, obj)
}

func (s *subClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	o := client.SubResourcePatchOptions{}
	o.ApplyOptions(opts)
	return s.client.patch(ctx, s.name, obj, patch, len(o.DryRun) > 0)
}

func (s *subClient) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return unsupported("server-side apply")
}

var (
	_ client.WithWatch         = (*Client)(nil)
	_ client.SubResourceClient = (*subClient)(nil)
)
