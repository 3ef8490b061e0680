// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// FunctionSource says where the code of a Function comes from.
// +kubebuilder:validation:XValidation:rule="[has(self.inline), has(self.upload), has(self.configMap), has(self.git), has(self.image)].filter(x, x).size() == 1",message="exactly one of inline, upload, configMap, git, image must be set"
type FunctionSource struct {
	// inline holds the code in the Function itself.
	// +optional
	Inline *InlineSource `json:"inline,omitempty"`

	// upload says that the code is uploaded to the gateway as a zip file.
	// +optional
	Upload *UploadSource `json:"upload,omitempty"`

	// configMap names a ConfigMap of this namespace whose keys are the files.
	// +optional
	ConfigMap *ConfigMapReference `json:"configMap,omitempty"`

	// git names a git repository.
	// +optional
	Git *GitSource `json:"git,omitempty"`

	// image names a ready image that was built on a sless runtime image.
	// +optional
	Image *ImageSource `json:"image,omitempty"`
}

// InlineSource is code in the Function itself.
type InlineSource struct {
	// files maps a relative path, such as handler.py or lib/util.py, to the text of that file. All files together may hold
	// 512 KiB.
	// +required
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=256
	Files map[string]string `json:"files,omitempty"`
}

// UploadSource is code that was uploaded to the gateway. The gateway writes the fields; while they are empty, the
// Function waits for an upload.
type UploadSource struct {
	// sha256 is the digest of the stored code, 64 hexadecimal digits.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^([a-f0-9]{64})?$`
	SHA256 string `json:"sha256,omitempty"`

	// sizeBytes is the size of the stored code in bytes.
	// +optional
	// +kubebuilder:validation:Minimum=0
	SizeBytes int64 `json:"sizeBytes,omitempty"`
}

// GitSource is code in a git repository.
type GitSource struct {
	// url is the address of the repository: https://, http:// or ssh://, or the short form git@host:path. It holds no
	// password; secretName is for that.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^(https?://|ssh://|[A-Za-z0-9_.-]+@)[^\s]+$`
	URL string `json:"url,omitempty"`

	// revision is a branch, a tag or a commit; a branch wins over a tag of the same name. The default is the repository's
	// default branch. A commit with all its 40 digits is never looked up again.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Revision string `json:"revision,omitempty"`

	// path is the folder of the repository that holds the code. The default is its root.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Path string `json:"path,omitempty"`

	// secretName names a Secret of this namespace with a token (token, or username and password) or an SSH key (identity,
	// known_hosts), and optionally with certificate authorities (ca.crt).
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName,omitempty"`

	// intervalSeconds is the time between two looks at the repository, at least 10. 0 means never: only a change of the
	// Function or of the Secret, and the annotation sless.io/reconcile-at, make sless look again. The default is the
	// operator's, 300 unless changed.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2592000
	// +kubebuilder:validation:XValidation:rule="self == 0 || self >= 10",message="must be 0 (never) or at least 10"
	IntervalSeconds *int32 `json:"intervalSeconds,omitempty"`
}

// ImageSource is a ready image.
type ImageSource struct {
	// ref is the reference of the image, with a tag or a digest.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Ref string `json:"ref,omitempty"`
}
