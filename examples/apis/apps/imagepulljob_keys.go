package apps

// These are the keys of NodeImage, ImagePullJob and ImageListPullJob.
const (
	// FinalizerImagePullJob prevents the deletion of an ImagePullJob until NodeImages do not list the job's image for
	// the job any more, and the job's copies of Secrets are released. The value is written and removed by the
	// controller.
	FinalizerImagePullJob = "apps.kruise.io/deletion-protection"
	// NamespacePullSecrets is the namespace with the copies of pull secrets, the only namespace whose Secrets agents may
	// read.
	NamespacePullSecrets = "kruise-daemon-config"
	// AnnotationSecretSource on a copy of a Secret is the namespace and name of the source: "ci/registry".
	AnnotationSecretSource = "imagepulljobs.kruise.io/source-key"
	// AnnotationSecretHolders on a copy of a Secret lists the ImagePullJobs that use the copy, in order:
	// "ci/warm-a,ci/warm-b".
	AnnotationSecretHolders = "imagepulljobs.kruise.io/references"
	// AnnotationSecretMode on a copy of a Secret is "batch": several jobs share the copy.
	AnnotationSecretMode = "imagepulljobs.kruise.io/mode"
	// LabelFakeNodeImage, with any value, keeps a NodeImage without a Node, for tests.
	LabelFakeNodeImage = "apps.kruise.io/fake-nodeimage"
	// AnnotationPullOrder on an ImagePullJob lists names of Nodes that pull first, in order: "n3,n1". The value is
	// written by users, and by controllers that know on which Nodes Pods are updated next.
	AnnotationPullOrder = "workloadkit.io/pull-order"
	// AnnotationPullThrough on an ImagePullJob or an ImageListPullJob says who pulls: PullThroughAgent or
	// PullThroughKubelet. The value is written by users; the manager has a flag for jobs without the annotation.
	AnnotationPullThrough = "workloadkit.io/pull-through"
	// PullThroughAgent lets the agents of the Nodes pull, with copies of pull secrets.
	PullThroughAgent = "agent"
	// PullThroughKubelet lets kubelets pull: the controller creates a Pod on each Node, with pull secrets of the
	// job's own namespace.
	PullThroughKubelet = "kubelet"
	// AnnotationPullReport on a Pod of an ImagePullJob says how far the pull is. The value is written by the controller.
	AnnotationPullReport = "workloadkit.io/pull-report"
	// LabelImagePullJobUID is the UID of a Pod's ImagePullJob. The value is written by the controller at creation.
	LabelImagePullJobUID = "workloadkit.io/imagepulljob-uid"
	// ConditionPulledByAgents on an ImagePullJob is True if agents pull on some Nodes although the job asks kubelets
	// to pull. The message says why.
	ConditionPulledByAgents = "PulledByAgents"
	// ConditionNodesMissing on an ImagePullJob is True if the job names Nodes that do not exist.
	ConditionNodesMissing = "NodesMissing"
	// ConditionImagesPresent on a NodeImage is True if all wanted images are present on the Node.
	ConditionImagesPresent = "ImagesPresent"
	// EventPullImageFailed is a Warning: a Node could not pull an image.
	EventPullImageFailed = "PullImageFailed"
	// EventPullSecretUnused is a Warning: a pull secret does not exist, or has no credentials for the image.
	EventPullSecretUnused = "PullSecretUnused"
)
