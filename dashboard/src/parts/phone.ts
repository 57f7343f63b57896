import { useEffect, useState } from 'preact/hooks';

const phone = matchMedia('(max-width: 700px)');

/** Whether the window is as narrow as that of a phone. */
export function usePhone(): boolean {
  const [is, setIs] = useState(phone.matches);
  useEffect(() => {
    const update = () => setIs(phone.matches);
    phone.addEventListener('change', update);
    return () => phone.removeEventListener('change', update);
  }, []);
  return is;
}
