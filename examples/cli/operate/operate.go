// Package operate changes objects on the API server for commands.
//
// Objects of all kinds and versions are read without Go types, so fields that the command line does not know are not
// lost. A change is sent as a JSON merge patch with the resource version read before. After a conflict, the object is
// read and changed again.
package operate

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/resource"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/scheme"

	"github.com/workloadkit/workloadkit/examples/cli/fields"
)

// Change edits an object in memory, and returns the word that the command prints, such as "paused". If Change returns
// an error, the edited object is not sent to the API server.
type Change func(u *unstructured.Unstructured) (operation string, err error)

// Options are the flags and streams of a command that changes objects.
type Options struct {
	resource.FilenameOptions
	genericiooptions.IOStreams

	Factory    cmdutil.Factory
	PrintFlags *genericclioptions.PrintFlags
	Selector   string
	// Subresource is the subresource to patch, or empty for the object.
	Subresource string
	dryRun      cmdutil.DryRunStrategy
}

// New returns options for a command, and adds their flags to the command.
func New(f cmdutil.Factory, streams genericiooptions.IOStreams, cmd *cobra.Command) *Options {
	o := &Options{Factory: f, IOStreams: streams, PrintFlags: genericclioptions.NewPrintFlags("").WithTypeSetter(scheme.Scheme)}
	cmdutil.AddFilenameOptionFlags(cmd, &o.FilenameOptions, "identifying the resource to get from a server.")
	cmdutil.AddLabelSelectorFlagVar(cmd, &o.Selector)
	cmdutil.AddDryRunFlag(cmd)
	o.PrintFlags.AddFlags(cmd)
	return o
}

// Namespace returns the namespace for the command, and whether the user has set the namespace explicitly.
func Namespace(f cmdutil.Factory) (namespace string, explicit bool, err error) {
	return f.ToRawKubeConfigLoader().Namespace()
}

// Infos reads the objects that the arguments and flags name.
func (o *Options) Infos(args []string) ([]*resource.Info, error) {
	if len(args) == 0 && cmdutil.IsFilenameSliceEmpty(o.Filenames, o.Kustomize) {
		return nil, errors.New("required resource not specified")
	}
	namespace, enforce, err := Namespace(o.Factory)
	if err != nil {
		return nil, err
	}
	return o.Factory.NewBuilder().Unstructured().
		NamespaceParam(namespace).DefaultNamespace().
		FilenameParam(enforce, &o.FilenameOptions).
		LabelSelectorParam(o.Selector).
		ResourceTypeOrNameArgs(true, args...).
		ContinueOnError().Latest().Flatten().Do().Infos()
}

// DryRun returns the strategy of the flag --dry-run.
func (o *Options) DryRun(cmd *cobra.Command) (cmdutil.DryRunStrategy, error) {
	strategy, err := cmdutil.GetDryRunStrategy(cmd)
	o.dryRun = strategy
	return strategy, err
}

// Run changes all objects that the arguments and flags name, and continues after an object that cannot be changed.
// The error joins all failures and names each object.
func (o *Options) Run(cmd *cobra.Command, args []string, change Change) error {
	if _, err := o.DryRun(cmd); err != nil {
		return err
	}
	infos, err := o.Infos(args)
	failures := []error{err}
	if err == nil && len(infos) == 0 {
		fmt.Fprintln(o.ErrOut, "No resources found")
	}
	for _, info := range infos {
		failures = append(failures, o.One(info, change))
	}
	return errors.Join(failures...)
}

// One changes and prints a single object.
func (o *Options) One(info *resource.Info, change Change) error {
	operation, err := o.Apply(info, change)
	if err != nil {
		return fmt.Errorf("%s: %w", info.ObjectName(), err)
	}
	return o.Print(info.Object, operation)
}

// attempts is how often an object is changed again after a conflict.
const attempts = 5

// Apply changes an object on the server; with --dry-run=client, only in memory. Afterwards info contains the object's
// new state.
func (o *Options) Apply(info *resource.Info, change Change) (operation string, err error) {
	for range attempts {
		u, ok := info.Object.(*unstructured.Unstructured)
		if !ok {
			return "", fmt.Errorf("%T is not read without types", info.Object)
		}
		after := u.DeepCopy()
		if operation, err = change(after); err != nil {
			return "", err
		}
		if o.dryRun == cmdutil.DryRunClient {
			return operation, info.Refresh(after, true)
		}
		patch, err := Patch(u.Object, after.Object)
		if err != nil || patch == nil {
			return operation, err
		}
		sent, err := resource.NewHelper(info.Client, info.Mapping).
			DryRun(o.dryRun == cmdutil.DryRunServer).
			WithFieldManager("kubectl-kruise").
			WithSubresource(o.Subresource).
			Patch(info.Namespace, info.Name, types.MergePatchType, patch, nil)
		if err == nil {
			return operation, info.Refresh(sent, true)
		}
		if !apierrors.IsConflict(err) {
			return "", err
		}
		if err := info.Get(); err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("the object has been changed by others %d times meanwhile", attempts)
}

// Patch returns the merge patch between two states of an object, with the resource version of the first state; nil if
// the states are equal.
func Patch(before, after fields.Object) ([]byte, error) {
	old, err := runtime.Encode(unstructured.UnstructuredJSONScheme, &unstructured.Unstructured{Object: before})
	if err != nil {
		return nil, err
	}
	changed, err := runtime.Encode(unstructured.UnstructuredJSONScheme, &unstructured.Unstructured{Object: after})
	if err != nil {
		return nil, err
	}
	patch, err := jsonpatch.CreateMergePatch(old, changed)
	if err != nil || string(patch) == "{}" {
		return nil, err
	}
	return jsonpatch.MergePatch(patch, fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q}}`, fields.String(before, "metadata.resourceVersion")))
}

// Print prints an object in the format of the flag --output, by default as a line with the operation.
func (o *Options) Print(object runtime.Object, operation string) error {
	o.PrintFlags.NamePrintFlags.Operation = operation
	cmdutil.PrintFlagsWithDryRunStrategy(o.PrintFlags, o.dryRun)
	printer, err := o.PrintFlags.ToPrinter()
	if err != nil {
		return err
	}
	return printer.PrintObj(object, o.Out)
}

// Exit is an error with an exit code other than 1. If Err is nil, no error is printed, because the command has
// already printed the reason.
type Exit struct {
	Code int
	Err  error
}

// Error returns the text of the error.
func (e *Exit) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns the error, for errors.Is and errors.As.
func (e *Exit) Unwrap() error { return e.Err }
