package defaults_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/apis/defaults"
)

func Example() {
	template := &corev1.PodTemplateSpec{}
	template.Spec.Containers = []corev1.Container{{Name: "app", Image: "example.test/app:v1"}}
	defaults.PodTemplate(template, defaults.Options{ContainerImagePullPolicy: corev1.PullAlways})
	fmt.Println(template.Spec.RestartPolicy, template.Spec.DNSPolicy, template.Spec.Containers[0].ImagePullPolicy)
	// Output: Always ClusterFirst Always
}

// TestPodTemplate compares a spec with its defaulted form. The test adds the defaults of the Pod's spec itself and of
// all containers to the "want" of every case.
func TestPodTemplate(t *testing.T) {
	tests := []struct {
		name     string
		opts     defaults.Options
		in, want string
	}{
		{name: "spec", in: `{}`, want: `{}`},
		{
			name: "values are kept",
			in: `{restartPolicy: Never, dnsPolicy: Default, schedulerName: mine, terminationGracePeriodSeconds: 0,
				securityContext: {runAsUser: 1}}`,
			want: `{restartPolicy: Never, dnsPolicy: Default, schedulerName: mine, terminationGracePeriodSeconds: 0,
				securityContext: {runAsUser: 1}}`,
		},
		{
			name: "V-4 pull policy of containers and init containers",
			opts: defaults.Options{ContainerImagePullPolicy: corev1.PullAlways},
			in:   `{containers: [{image: "a:v1"}], initContainers: [{image: "a:v1"}, {image: "a"}]}`,
			want: `{containers: [{image: "a:v1", imagePullPolicy: Always}],
				initContainers: [{image: "a:v1", imagePullPolicy: IfNotPresent}, {image: a, imagePullPolicy: Always}]}`,
		},
		{
			name: "ports and environment",
			in: `{containers: [{imagePullPolicy: Never, ports: [{containerPort: 80}, {protocol: UDP}],
				env: [{valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}, {valueFrom: {fileKeyRef: {key: k}}}]}]}`,
			want: `{containers: [{imagePullPolicy: Never, ports: [{containerPort: 80, protocol: TCP}, {protocol: UDP}],
				env: [{valueFrom: {fieldRef: {fieldPath: spec.nodeName, apiVersion: v1}}},
				{valueFrom: {fileKeyRef: {key: k, optional: false}}}]}]}`,
		},
		{
			name: "probes and hooks",
			in: `{containers: [{imagePullPolicy: Never, livenessProbe: {httpGet: {port: 80}},
				readinessProbe: {grpc: {port: 1}, periodSeconds: 2}, lifecycle: {preStop: {httpGet: {port: 1}}}}]}`,
			want: `{containers: [{imagePullPolicy: Never, livenessProbe: {httpGet: {port: 80, path: /, scheme: HTTP},
				timeoutSeconds: 1, periodSeconds: 10, successThreshold: 1, failureThreshold: 3},
				readinessProbe: {grpc: {port: 1, service: ""}, timeoutSeconds: 1, periodSeconds: 2, successThreshold: 1,
				failureThreshold: 3}, lifecycle: {preStop: {httpGet: {port: 1, path: /, scheme: HTTP}}}}]}`,
		},
		{
			name: "requests do not follow limits in a template, quantities are rounded up",
			in:   `{containers: [{imagePullPolicy: Never, resources: {limits: {cpu: 1u}}}]}`,
			want: `{containers: [{imagePullPolicy: Never, resources: {limits: {cpu: 1m}}}]}`,
		},
		{
			name: "volumes that show API data",
			in: `{volumes: [{name: a}, {secret: {}}, {configMap: {}}, {downwardAPI: {items: [{fieldRef: {}}]}},
				{projected: {sources: [{serviceAccountToken: {path: t}}]}}, {hostPath: {path: /}}]}`,
			want: `{volumes: [{name: a, emptyDir: {}}, {secret: {defaultMode: 420}}, {configMap: {defaultMode: 420}},
				{downwardAPI: {defaultMode: 420, items: [{fieldRef: {apiVersion: v1}}]}},
				{projected: {defaultMode: 420, sources: [{serviceAccountToken: {path: t, expirationSeconds: 3600}}]}},
				{hostPath: {path: /, type: ""}}]}`,
		},
		{
			name: "volumes of storage systems",
			in: `{volumes: [{iscsi: {}}, {rbd: {}}, {azureDisk: {}}, {scaleIO: {}}, {image: {reference: "a:1"}},
				{ephemeral: {volumeClaimTemplate: {spec: {}}}}]}`,
			want: `{volumes: [{iscsi: {iscsiInterface: default}},
				{rbd: {pool: rbd, user: admin, keyring: /etc/ceph/keyring}},
				{azureDisk: {cachingMode: ReadWrite, fsType: ext4, readOnly: false, kind: Shared}},
				{scaleIO: {storageMode: ThinProvisioned, fsType: xfs}}, {image: {reference: "a:1", pullPolicy: IfNotPresent}},
				{ephemeral: {volumeClaimTemplate: {spec: {volumeMode: Filesystem}}}}]}`,
		},
		{
			name: "V-3 host ports stay open",
			in:   `{hostNetwork: true, containers: [{imagePullPolicy: Never, ports: [{containerPort: 80, protocol: TCP}]}]}`,
			want: `{hostNetwork: true, containers: [{imagePullPolicy: Never, ports: [{containerPort: 80, protocol: TCP}]}]}`,
		},
		{
			name: "V-3 host ports with the gate", opts: defaults.Options{HostNetworkHostPorts: true},
			in: `{hostNetwork: true, containers: [{imagePullPolicy: Never, ports: [{containerPort: 80, protocol: TCP}]}]}`,
			want: `{hostNetwork: true, containers: [{imagePullPolicy: Never,
				ports: [{containerPort: 80, hostPort: 80, protocol: TCP}]}]}`,
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var got, want corev1.PodTemplateSpec
			parse(t, tc.in, &got.Spec)
			parse(t, alwaysThere, &want.Spec)
			parse(t, tc.want, &want.Spec)
			for _, containers := range [][]corev1.Container{want.Spec.Containers, want.Spec.InitContainers} {
				for i := range containers {
					containers[i].TerminationMessagePath = "/dev/termination-log"
					containers[i].TerminationMessagePolicy = corev1.TerminationMessageReadFile
				}
			}
			defaults.PodTemplate(&got, tc.opts)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			defaults.PodTemplate(&got, tc.opts)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("second time (-want +got):\n%s", diff)
			}
		})
	}
}

const alwaysThere = `{restartPolicy: Always, dnsPolicy: ClusterFirst, schedulerName: default-scheduler,
	terminationGracePeriodSeconds: 30, securityContext: {}}`

func parse(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func TestPullPolicyByTag(t *testing.T) {
	const (
		sum    = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
		always = corev1.PullAlways
		absent = corev1.PullIfNotPresent
	)
	for image, want := range map[string]corev1.PullPolicy{
		"a": always, "a:latest": always, "a:v1": absent, "r:5000/a": always, "r:5000/a:v1": absent,
		"a@sha256:" + sum: absent, "a:latest@sha256:" + sum: always, "r.io/a/b": always, "[::1]:5000/a": always,
		"": absent, "A": absent, "a b": absent, "a:": absent, "$(IMAGE)": absent, sum: absent,
	} {
		template := &corev1.PodTemplateSpec{}
		template.Spec.InitContainers = []corev1.Container{{Image: image}}
		defaults.PodTemplate(template, defaults.Options{})
		if got := template.Spec.InitContainers[0].ImagePullPolicy; got != want {
			t.Errorf("image %q: imagePullPolicy = %s, want %s", image, got, want)
		}
	}
}

func TestClaimTemplate(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}
	defaults.ClaimTemplate(claim)
	if claim.Status.Phase != corev1.ClaimPending || claim.Spec.VolumeMode != nil {
		t.Errorf("phase %q, volumeMode %v; want Pending and none (V-2)", claim.Status.Phase, claim.Spec.VolumeMode)
	}
}

func BenchmarkPodTemplate(b *testing.B) {
	template := &corev1.PodTemplateSpec{}
	template.Spec.Containers = make([]corev1.Container, 3)
	for b.Loop() {
		defaults.PodTemplate(template, defaults.Options{})
	}
}
