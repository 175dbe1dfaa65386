package hostile

import (
	"fmt"
	"maps"
	"net/http"
	"strings"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

// ImageJobs returns ImagePullJobs and ImageListPullJobs for an attack; each call returns the same objects. The jobs
// select no Node. Admission accepts the kinds only if the feature gate ImagePullJobGate is on.
func ImageJobs() []Object {
	job := func(image string, more tree) tree {
		return imageJob("ImagePullJob", tree{"image": image}, more)
	}
	list := func(n int, more tree) tree {
		return imageJob("ImageListPullJob", tree{"images": repeated(n, func(i int) any { return fmt.Sprintf("example.test/app:v%d", i) })}, more)
	}
	const image = "example.test/app:v1"
	names := func(n int) []any { return repeated(n, func(i int) any { return fmt.Sprintf("none-%d", i) }) }
	through := job(image, nil)
	through["metadata"].(tree)["annotations"] = tree{apps.AnnotationPullThrough: strings.Repeat("x", 200_000)}
	order := job(image, nil)
	order["metadata"].(tree)["annotations"] = tree{apps.AnnotationPullOrder: strings.Repeat("n,", 100_000)}
	return []Object{
		{"an image name of a megabyte", job("example.test/"+strings.Repeat("a/", 500_000)+"a:v1", nil), false},
		{"255 images", list(255, nil), true},
		{"256 images", list(256, nil), false},
		{"20,000 images", list(20_000, nil), false},
		{"the Secret of another namespace", job(image, tree{"pullSecrets": []any{"../quiet/registry"}}), false},
		{"a name of a Secret of a megabyte", job(image, tree{"pullSecrets": []any{strings.Repeat("x", 1<<20)}}), false},
		{"20,000 Secrets", job(image, tree{"pullSecrets": names(20_000)}), false},
		{"255 images with 20,000 Secrets", list(255, tree{"pullSecrets": names(20_000)}), false},
		{"20,000 Nodes", job(image, tree{"selector": tree{"names": names(20_000)}}), false},
		{"the same Node 20,000 times", job(image, tree{"selector": tree{"names": repeated(20_000, func(int) any { return "none" })}}), false},
		{"a parallelism below nothing", job(image, tree{"parallelism": -1 << 31}), false},
		{"a time until the end of time", job(image, tree{"pullPolicy": tree{"timeoutSeconds": 1<<31 - 1, "backoffLimit": 1<<31 - 1}}), true},
		{"a way to pull that is none", through, false},
		{"an order of 100,000 Nodes", order, true},
	}
}

func imageJob(kind string, spec, more tree) tree {
	spec["selector"], spec["completionPolicy"] = tree{"names": []any{"none"}}, tree{"type": "Always"}
	maps.Copy(spec, more)
	return tree{"apiVersion": "apps.kruise.io/v1beta1", "kind": kind, "metadata": tree{}, "spec": spec}
}

const nodeObjects = "/apis/apps.kruise.io/"

// imageWrites returns writes of an attacking agent to NodeImages. The policies let an agent write any status into the
// NodeImage of its own Node, because every reader of the status limits the content.
func imageWrites(at Places) []Write {
	own, foreign := nodeObjects+"v1beta1/nodeimages/"+at.Node, nodeObjects+"v1beta1/nodeimages/"+at.ForeignNode
	write := func(name, path string, passes bool, body tree) Write {
		return Write{name, http.MethodPatch, path, merge, encode(body), passes}
	}
	tags := func(tags ...any) tree {
		return tree{"status": tree{"imageStatuses": tree{"example.test/app": tree{"tags": tags}}}}
	}
	tag := func(more tree) tree {
		out := tree{"tag": "v1", "phase": "Pulling", "version": 0}
		maps.Copy(out, more)
		return out
	}
	images := func(n int) tree {
		out := tree{}
		for i := range n {
			out[fmt.Sprintf("example.test/app-%d", i)] = tree{"tags": []any{tag(nil)}}
		}
		return tree{"status": tree{"imageStatuses": out}}
	}
	return []Write{
		write("a report about an image that nobody wants", own+"/status", true, tags(tag(nil))),
		write("reports about 255 images", own+"/status", true, images(255)),
		write("2,000 reports about a tag", own+"/status", true, tags(repeated(2_000, func(int) any { return tag(nil) })...)),
		write("a message of 200 kilobytes", own+"/status", true, tags(tag(tree{"message": strings.Repeat("\u0000\n", 100_000)}))),
		write("a version that is far away", own+"/status", true, tags(tag(tree{"version": int64(1) << 62, "phase": "Succeeded"}))),
		write("an end in a thousand years", own+"/status", true, tags(tag(tree{"phase": "Succeeded", "completionTime": "3026-01-01T00:00:00Z"}))),
		write("reports that are none", own+"/status", false, tree{"status": tree{"imageStatuses": "all"}}),
		write("a pull that began in words", own+"/status", false, tags(tag(tree{"startTime": "soon"}))),
		write("an image to pull", own, false, tree{"spec": tree{"images": tree{"evil.test/app": tree{"tags": []any{tree{"tag": "v1"}}}}}}),
		write("the Secret of another job", own, false, tree{"spec": tree{"images": tree{"example.test/app": tree{"pullSecrets": []any{tree{"namespace": "quiet", "name": "registry"}}}}}}),
		write("a report of another Node", foreign+"/status", false, tags(tag(nil))),
		write("a report of another Node in the old version", strings.Replace(foreign, "v1beta1", "v1alpha1", 1)+"/status", false, tags(tag(nil))),
		write("a report of another Node as a dry run", foreign+"/status?dryRun=All", false, tags(tag(nil))),
		{"the end of the images of another Node", http.MethodDelete, foreign, "", nil, false},
		{"the end of the images of the Node", http.MethodDelete, own, "", nil, false},
	}
}

// probeWrites returns writes of an attacking agent to NodePodProbes.
func probeWrites(at Places) []Write {
	own, foreign := nodeObjects+"v1alpha1/nodepodprobes/"+at.Node, nodeObjects+"v1alpha1/nodepodprobes/"+at.ForeignNode
	refused := func(name, path string, body tree) Write {
		return Write{name, http.MethodPatch, path, merge, encode(body), false}
	}
	results := func(n int) tree {
		return tree{"status": tree{"podProbeStatuses": repeated(n, func(i int) any {
			return tree{"namespace": at.Namespace, "name": fmt.Sprintf("p%d", i), "uid": "x", "probeStates": []any{tree{"name": "m#app", "state": "Succeeded"}}}
		})}}
	}
	return []Write{
		refused("results of 2,000 Pods that nobody asks for", own+"/status", results(2_000)),
		refused("results that are none", own+"/status", tree{"status": tree{"podProbeStatuses": "all"}}),
		refused("a probe to run", own, tree{"spec": tree{"podProbes": []any{tree{"namespace": at.Namespace, "name": at.Pod, "uid": "x"}}}}),
		refused("results of another Node", foreign+"/status", results(1)),
		{"the end of the probes of another Node", http.MethodDelete, foreign, "", nil, false},
	}
}
