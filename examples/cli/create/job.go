package create

import (
	"errors"
	"fmt"
	"maps"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/completion"

	"github.com/workloadkit/workloadkit/examples/cli/fields"
)

// instantiate is the annotation with which kubectl marks jobs that a user, and not the CronJob controller, has
// created from a CronJob.
const instantiate = "cronjob.kubernetes.io/instantiate"

func newJob(f cmdutil.Factory, streams genericiooptions.IOStreams, use string, gk schema.GroupKind) *cobra.Command {
	var image, from string
	cmd := &cobra.Command{
		Use:   use + " NAME (--image=IMAGE [-- COMMAND ...] | --from=TYPE/NAME)",
		Short: fmt.Sprintf("Create a %s from an image, or from a schedule's template", gk.Kind),
		Example: fmt.Sprintf("  kubectl kruise create %s clean --image=busybox -- rm -r /tmp/cache\n  kubectl kruise create %s clean-now --from=acj/clean",
			use, use),
	}
	if use != "job" {
		cmd.Aliases = []string{"broadcastjob", "bcj"}
	}
	m := newMaker(f, streams, cmd)
	cmd.Flags().StringVar(&image, "image", "", "Image name to run.")
	cmd.Flags().StringVar(&from, "from", "", "The CronJob or AdvancedCronJob with the template, such as acj/clean.")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		content, err := m.job(args, image, from, gk)
		if err != nil {
			return err
		}
		return m.create(cmd, gk, content)
	}
	if err := cmd.RegisterFlagCompletionFunc("from", completion.SpecifiedResourceTypeAndNameCompletionFunc(f, []string{"advancedcronjobs", "cronjobs"})); err != nil {
		panic(err) // the flag is defined above
	}
	return cmd
}

func (m *maker) job(args []string, image, from string, gk schema.GroupKind) (fields.Object, error) {
	switch {
	case len(args) == 0:
		return nil, errors.New("NAME is required")
	case (image == "") == (from == ""):
		return nil, errors.New("either --image or --from must be specified")
	case from != "" && len(args) > 1:
		return nil, errors.New("cannot specify --from and command")
	}
	namespace, _, err := m.factory.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, err
	}
	if image != "" {
		return fromImage(namespace, args[0], image, args[1:]), nil
	}
	infos, err := m.factory.NewBuilder().Unstructured().NamespaceParam(namespace).DefaultNamespace().
		ResourceTypeOrNameArgs(false, from).Flatten().Latest().Do().Infos()
	if err != nil {
		return nil, err
	}
	source, ok := infos[0].Object.(*unstructured.Unstructured)
	if !ok || len(infos) != 1 {
		return nil, fmt.Errorf("--from %s must name a single object", from)
	}
	return fromSchedule(source, args[0], gk)
}

// fromImage returns a job with a single container of the job's name.
func fromImage(namespace, name, image string, command []string) fields.Object {
	container := fields.Object{"name": name, "image": image}
	if len(command) > 0 {
		words := make([]any, len(command))
		for i := range command {
			words[i] = command[i]
		}
		container["command"] = words
	}
	return fields.Object{
		"metadata": fields.Object{"name": name, "namespace": namespace},
		"spec": fields.Object{"template": fields.Object{"spec": fields.Object{
			"restartPolicy": "Never", "containers": []any{container},
		}}},
	}
}

// fromSchedule returns the job that a CronJob or AdvancedCronJob would create, with this object as the owner.
func fromSchedule(source *unstructured.Unstructured, name string, gk schema.GroupKind) (fields.Object, error) {
	var path string
	switch from := source.GroupVersionKind().GroupKind(); {
	case from.Group == "batch" && from.Kind == "CronJob" && gk.Kind == "Job":
		path = "spec.jobTemplate"
	case from.Group == "apps.kruise.io" && from.Kind == "AdvancedCronJob":
		if kind := fields.String(source.Object, "status.type"); kind != "" && kind != gk.Kind {
			return nil, fmt.Errorf("status.type: the AdvancedCronJob %s creates objects of kind %s, not %s", source.GetName(), kind, gk.Kind)
		}
		path = map[string]string{"Job": "spec.template.jobTemplate", "BroadcastJob": "spec.template.broadcastJobTemplate"}[gk.Kind]
	default:
		return nil, fmt.Errorf("--from: a %s cannot be created from a %s", gk.Kind, from)
	}
	value, _ := fields.At(source.Object, path)
	template, isThere := value.(fields.Object)
	if !isThere {
		return nil, fmt.Errorf("%s: the %s %s has no template for a %s", path, source.GetKind(), source.GetName(), gk.Kind)
	}
	annotations := fields.Object{instantiate: "manual"}
	if own, _ := fields.At(template, "metadata.annotations"); own != nil {
		maps.Copy(annotations, own.(fields.Object)) //nolint:forcetypeassert // the API server has checked the CRD
	}
	meta := fields.Object{
		"name": name, "namespace": source.GetNamespace(), "annotations": annotations,
		"ownerReferences": []any{fields.Object{
			"apiVersion": source.GetAPIVersion(), "kind": source.GetKind(), "name": source.GetName(), "uid": string(source.GetUID()), "controller": true,
		}},
	}
	if labels, found := fields.At(template, "metadata.labels"); found {
		meta["labels"] = labels
	}
	return fields.Object{"metadata": meta, "spec": template["spec"]}, nil
}
