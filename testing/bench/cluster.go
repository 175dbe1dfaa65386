package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/testing/install"
)

// account is the ServiceAccount of the manager under measurement. The bench counts all requests of the account,
// whatever the user agent. API priority and fairness gives the ServiceAccount the same priority as a manager in a
// real cluster has.
const account = "manager-under-measurement"

// user is the name of the account in the audit log.
func user() string { return "system:serviceaccount:" + Namespace + ":" + account }

// installCRDs installs the CRDs of the workload, or if paths are given, the CRDs in these files and directories.
func installCRDs(ctx context.Context, c client.Client, w Workload, paths []string) error {
	if len(paths) == 0 && w.Install != nil {
		return w.Install(ctx, c)
	}
	manifests, err := readCRDs(paths)
	if err != nil {
		return err
	}
	for _, manifest := range manifests {
		if err := install.CRD(ctx, c, manifest); err != nil {
			return err
		}
	}
	return nil
}

// readCRDs returns all CRDs in YAML files and directories. Objects of other kinds are left out, because the manifests
// of a release contain objects of many kinds.
func readCRDs(paths []string) (crds [][]byte, err error) {
	for _, path := range paths {
		files := []string{path}
		if info, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("CRDs: %w", err)
		} else if info.IsDir() {
			if files, err = filepath.Glob(filepath.Join(path, "*.y*ml")); err != nil {
				return nil, fmt.Errorf("CRDs %s: %w", path, err)
			}
		}
		before := len(crds)
		for _, file := range files {
			found, err := crdsOf(file)
			if err != nil {
				return nil, fmt.Errorf("CRDs %s: %w", file, err)
			}
			crds = append(crds, found...)
		}
		if len(crds) == before {
			return nil, fmt.Errorf("CRDs %s: no CustomResourceDefinition in it", path)
		}
	}
	return crds, nil
}

func crdsOf(file string) (crds [][]byte, err error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	documents := utilyaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(raw)))
	buffer := make([]byte, len(raw)+1)
	for {
		n, err := documents.Read(buffer)
		if errors.Is(err, io.EOF) {
			return crds, nil
		}
		if err != nil {
			return nil, err
		}
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal(buffer[:n], &kind); err != nil {
			return nil, err
		}
		if kind.Kind == "CustomResourceDefinition" {
			crds = append(crds, slices.Clone(buffer[:n]))
		}
	}
}

// createAccount creates the manager's ServiceAccount and writes a kubeconfig for the account.
func createAccount(ctx context.Context, c client.Client, cluster *rest.Config, path string) error {
	subject := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: account}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: Namespace, Name: account}},
	}
	for _, object := range []client.Object{subject, binding} {
		if err := c.Create(ctx, object); err != nil {
			return fmt.Errorf("creating the manager's user %s: %w", object.GetName(), err)
		}
	}
	const aDay = 24 * 60 * 60
	token := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](aDay)}}
	if err := c.SubResource("token").Create(ctx, subject, token); err != nil {
		return fmt.Errorf("token of the manager's user: %w", err)
	}
	file := clientcmdapi.NewConfig()
	file.Clusters["bench"] = &clientcmdapi.Cluster{Server: cluster.Host, CertificateAuthorityData: cluster.CAData}
	file.AuthInfos[account] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	file.Contexts["bench"] = &clientcmdapi.Context{Cluster: "bench", AuthInfo: account, Namespace: Namespace}
	file.CurrentContext = "bench"
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		return fmt.Errorf("writing the manager's kubeconfig: %w", err)
	}
	return nil
}
