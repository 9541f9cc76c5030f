import { startEmbeddedProduct } from '../support/product.ts';
import { describePipeline } from './pipeline.ts';

describePipeline('the embedded log', startEmbeddedProduct);
