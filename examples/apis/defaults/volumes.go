package defaults

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// These are the defaults of volume sources without a constant in the API.
const (
	iscsiInterface     = "default"
	rbdPool            = "rbd"
	rbdUser            = "admin"
	rbdKeyring         = "/etc/ceph/keyring"
	azureFSType        = "ext4"
	scaleIOStorageMode = "ThinProvisioned"
	scaleIOFSType      = "xfs"
	tokenSeconds       = int64(3600)
)

func volume(v *corev1.Volume) {
	if v.VolumeSource == (corev1.VolumeSource{}) {
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	if v.Image != nil {
		setIfZero(&v.Image.PullPolicy, pullPolicyFor(v.Image.Reference))
	}
	if v.HostPath != nil {
		IfNil(&v.HostPath.Type, corev1.HostPathUnset)
	}
	if v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil {
		claim := &v.Ephemeral.VolumeClaimTemplate.Spec
		IfNil(&claim.VolumeMode, corev1.PersistentVolumeFilesystem)
		roundUp(claim.Resources.Limits)
		roundUp(claim.Resources.Requests)
	}
	fileVolume(v)
	storageVolume(v)
}

// fileVolume sets the defaults of volume sources whose files contain data of the API.
func fileVolume(v *corev1.Volume) {
	if v.Secret != nil {
		IfNil(&v.Secret.DefaultMode, corev1.SecretVolumeSourceDefaultMode)
	}
	if v.ConfigMap != nil {
		IfNil(&v.ConfigMap.DefaultMode, corev1.ConfigMapVolumeSourceDefaultMode)
	}
	if v.DownwardAPI != nil {
		IfNil(&v.DownwardAPI.DefaultMode, corev1.DownwardAPIVolumeSourceDefaultMode)
		downwardFiles(v.DownwardAPI.Items)
	}
	if v.Projected == nil {
		return
	}
	IfNil(&v.Projected.DefaultMode, corev1.ProjectedVolumeSourceDefaultMode)
	for _, source := range v.Projected.Sources {
		if source.DownwardAPI != nil {
			downwardFiles(source.DownwardAPI.Items)
		}
		if source.ServiceAccountToken != nil {
			IfNil(&source.ServiceAccountToken.ExpirationSeconds, tokenSeconds)
		}
	}
}

func downwardFiles(items []corev1.DownwardAPIVolumeFile) {
	for i := range items {
		fieldRef(items[i].FieldRef)
	}
}

// storageVolume sets the defaults of volume sources that name a storage system.
func storageVolume(v *corev1.Volume) {
	if v.ISCSI != nil {
		setIfZero(&v.ISCSI.ISCSIInterface, iscsiInterface)
	}
	if v.RBD != nil {
		setIfZero(&v.RBD.RBDPool, rbdPool)
		setIfZero(&v.RBD.RadosUser, rbdUser)
		setIfZero(&v.RBD.Keyring, rbdKeyring)
	}
	if v.AzureDisk != nil {
		IfNil(&v.AzureDisk.CachingMode, corev1.AzureDataDiskCachingReadWrite)
		IfNil(&v.AzureDisk.FSType, azureFSType)
		IfNil(&v.AzureDisk.ReadOnly, false)
		IfNil(&v.AzureDisk.Kind, corev1.AzureSharedBlobDisk)
	}
	if v.ScaleIO != nil {
		setIfZero(&v.ScaleIO.StorageMode, scaleIOStorageMode)
		setIfZero(&v.ScaleIO.FSType, scaleIOFSType)
	}
}

func roundUp(list corev1.ResourceList) {
	for name, quantity := range list {
		quantity.RoundUp(resource.Milli)
		list[name] = quantity
	}
}
