package pullsecret_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/node/pullsecret"
)

func pullSecret(name, config string) corev1.Secret {
	return corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(config)},
	}
}

// An agent pulls an image with the credentials of two Secrets. A third Secret is malformed, and is left out.
func Example() {
	keyring, problems := pullsecret.Read([]corev1.Secret{
		pullSecret("team", `{"auths": {"registry.example.com": {"username": "team", "password": "open sesame"}}}`),
		pullSecret("broken", `{"auths": {"registry.example.com": {"auth": "open sesame"}}}`),
		pullSecret("app", `{"auths": {"https://registry.example.com/v2/shop": {"identitytoken": "xyzzy"}}}`),
	})
	for _, credential := range keyring.For(pullsecret.Image{Host: "registry.example.com", Path: "shop/app"}) {
		fmt.Println("try the", credential)
	}
	fmt.Println(problems)
	fmt.Println(keyring.Redact(`denied: "team:open sesame"`))

	// Output:
	// try the identity token for registry.example.com/shop from Secret shop/app
	// try the password for registry.example.com from Secret shop/team
	// MalformedEntry: Secret shop/broken: data[.dockerconfigjson][registry.example.com]: the auth field is not base64 of "user:password"; correct or remove the entry
	// denied: "team:[redacted]"
}

// A manager copies Secrets for two jobs that pull from different registries. Afterwards the first job ends.
func ExampleSynced() {
	secret := pullSecret("all", `{"auths": {"gcr.io": {"auth": "YTpi", "email": "me@example.com"}, "quay.io": {"auth": "YzpkCg=="}}}`)
	name := types.NamespacedName{Namespace: "shop", Name: "all"}
	jobs := []pullsecret.Holder{
		{Name: "shop/warm-up", Sources: []types.NamespacedName{name}, Images: []pullsecret.Image{{Host: "gcr.io", Path: "shop/app"}}},
		{Name: "shop/tools", Sources: []types.NamespacedName{name}, Images: []pullsecret.Image{{Host: "quay.io", Path: "shop/tools"}}},
	}
	sources := []pullsecret.Source{{Name: name, Secret: &secret}}

	plan := pullsecret.Synced(sources, nil, jobs)
	for i := range plan.Make {
		plan.Make[i].Name = fmt.Sprintf("all-%d", i) // in a real program, the API server generates the name
		fmt.Printf("make %s for %s: %s\n", plan.Make[i].Name, plan.Make[i].Holders, plan.Make[i].Content.Data[corev1.DockerConfigJsonKey])
	}
	fmt.Println("references of shop/tools:", plan.Of("shop/tools"))

	plan = pullsecret.Synced(sources, plan.Make, jobs[1:])
	for _, c := range plan.Drop {
		fmt.Println("drop", c.Name)
	}

	// Output:
	// make all-0 for [shop/tools]: {"auths":{"quay.io":{"auth":"YzpkCg=="}}}
	// make all-1 for [shop/warm-up]: {"auths":{"gcr.io":{"auth":"YTpi"}}}
	// references of shop/tools: [all-0]
	// drop all-1
}
