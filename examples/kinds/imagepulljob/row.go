package imagepulljob

import (
	"context"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/examples/kruise/metrics"
)

// Row returns the description of the kind for the code that all kinds share.
func Row() kind.Row {
	workers, flags := 3, newFlags()
	return kind.Row{
		Kind: v1beta1.GroupVersion.WithKind("ImagePullJob"), Resource: "imagepulljobs", Converted: true, Released: "v1alpha1",
		AddToScheme: v1beta1.AddToScheme,
		Controller:  ControllerName, Workers: &workers,
		Metrics: metrics.Work{Things: "nodes", Label: "action", Help: "NodeImages of jobs, by what was done to them: claimed, when a pull was asked for, and released; and Pods of jobs: created, deleted."}.Metrics,
		Flags:   flags.add,
		Gates:   []apps.Gate{apps.GateImagePullJob},
		Setup: func(ctx context.Context, mgr ctrl.Manager, c client.Client, options kruise.Options) error {
			return Setup(ctx, mgr, c, Options{Options: options, KeepSeconds: flags.keep, Registries: flags.registries, PullThrough: flags.through, PauseImage: flags.pause})
		},
		Cached: []kind.Cached{{Object: &corev1.Secret{}, Keep: keepCopy}},
		Rights: kind.Rights{
			Objects: []string{"get", "list", "watch", "create", "patch", "delete"}, Status: true, Owns: true,
			Why: "Jobs get a finalizer while they hold copies of Secrets. Finished jobs are deleted when their time is over. " +
				"A job whose images kubelets pull creates Pods, patches the Pods' records and deletes the Pods, with the rights to Pods below.",
		}, // the rights to Secrets are in examples/config/imagepulljob
		Admission: func(options admission.Options) admission.Endpoint { return endpoint(options, flags) },
	}
}

// flags are the values of the kind's command-line flags.
type flags struct {
	keep       int
	registries []string
	through    string
	pause      string
}

func newFlags() *flags {
	return &flags{keep: defaultKeep, registries: []string{"*"}, through: apps.PullThroughAgent, pause: DefaultPauseImage}
}

func (f *flags) add(fs *pflag.FlagSet) {
	fs.IntVar(&f.keep, "default-ttlseconds-for-always-nodeimage", f.keep, "how many seconds longer than its job a pulled tag stays in NodeImages")
	fs.StringVar(&f.through, "image-pull-through", f.through, "who pulls for jobs without the annotation "+apps.AnnotationPullThrough+": agent, or kubelet by a Pod on each Node")
	fs.StringVar(&f.pause, "image-pull-pause-image", f.pause, "image of the container of Pods by which kubelets pull")
	fs.StringSliceVar(&f.registries, "image-pull-registries", f.registries, "registries from which jobs may pull: host, host/path, *.domain or *")
}

func (f *flags) rules() *rulesOfManager { return newRules(f.keep, f.registries) }

// secretMetadata returns an empty Secret of which only metadata is read and watched.
func secretMetadata() *metav1.PartialObjectMetadata {
	out := &metav1.PartialObjectMetadata{}
	out.APIVersion, out.Kind = "v1", "Secret"
	return out
}
